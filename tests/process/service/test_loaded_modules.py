"""What a process has loaded: one that serves a policy nothing that compiles one, a short command no MCP SDK."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.gateways import http_gateway_process, shelf, write_config
from support.running import children_of, service, serving
from support.waiting import eventually

_REPORT = """\
import os, signal, sys
def report(*_):
    path = {directory!r} + "/" + str(os.getpid())
    with open(path + ".part", "w") as file:
        file.write(" ".join(sys.modules))
    os.replace(path + ".part", path)
signal.signal(signal.SIGUSR1, report)
"""
COMPILING = ("callability.compiler.", "durable.")


@pytest.fixture
def reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory into which each process writes the modules that it has loaded, when it gets a signal."""
    (tmp_path / "reports").mkdir()
    (tmp_path / "start").mkdir()
    (tmp_path / "start/sitecustomize.py").write_text(_REPORT.format(directory=str(tmp_path / "reports")))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "start"), prepend=os.pathsep)
    return tmp_path / "reports"


def _loaded(process: int, reports: Path) -> list[str]:
    os.kill(process, signal.SIGUSR1)
    report = reports / str(process)
    eventually(report.exists)
    return report.read_text().split()


def _gateway() -> int:
    """Return the id of the gateway that this process has started."""
    [found] = [
        process
        for process in children_of(os.getpid())
        if b"\0gateway\0" in Path(f"/proc/{process}/cmdline").read_bytes()
    ]
    return int(found)


def test_a_service_loads_neither_what_compiles_a_policy_nor_what_reads_yaml(reports: Path) -> None:
    """A process of its own checks the policy; nothing but a callers file is YAML."""
    with service(fresh=True) as running:
        loaded = _loaded(running.process.pid, reports)
    assert "callability.kernel.byte_calls" in loaded
    assert [name for name in loaded if name.startswith((*COMPILING, "ruamel."))] == []


@pytest.mark.parametrize("remote", [False, True])
def test_a_gateway_loads_nothing_that_compiles_a_policy(tmp_path: Path, reports: Path, *, remote: bool) -> None:
    """Neither with a policy in its own process nor with that of a service; its config is JSON, and needs no YAML."""
    config = write_config(tmp_path, {"files": shelf(tmp_path, "files")})
    with serving() as address:
        others = ("--policy-address", address) if remote else ()
        with http_gateway_process(config, *others, fresh=True):
            loaded = _loaded(_gateway(), reports)
    assert "callability.gateway.tools.dispatch" in loaded
    assert [name for name in loaded if name.startswith((*COMPILING, "ruamel."))] == []


@pytest.mark.parametrize("command", ["config", "preflight", "servers", "setup", "why"])
def test_a_command_loads_the_mcp_sdk_only_once_it_has_to_connect_a_server(command: str) -> None:
    """The SDK takes longer to import than a running gateway takes to answer, or a plan of a set-up to make."""
    code = f"import sys, callability.cli.{command}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "callability.gateway.config.config" in loaded
    assert [name for name in loaded if name.partition(".")[0] in {"mcp", "mcp_types"}] == []
