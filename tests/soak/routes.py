"""The ways by which callers reach the replicas, and the processes of callers on each."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from soak import asyncio_callers, blocking_callers, control
from soak.processes import SoakFailed, end, ending, python, said, start
from soak.reference import Questions
from soak.replicas import TOKEN, Replicas, seen
from soak.work import Sample, Series, Work, samples
from support.balancers import configured
from support.running import unused_port

_KINDS = (asyncio_callers.__name__, blocking_callers.__name__)


@dataclass(frozen=True, slots=True)
class Route:
    """A way to the replicas: the addresses that callers are given, and what returns the processes of a balancer."""

    name: str
    addresses: tuple[str, ...]
    processes: Callable[[], Mapping[str, int]]


@dataclass(slots=True)
class Callers:
    """The processes of callers on one route."""

    route: Route
    results: Path
    processes: Mapping[str, subprocess.Popen[str]]

    def ready(self) -> None:
        """Wait until every caller has had an answer.

        Raises:
            SoakFailed: a process has ended.
        """
        for kind, process in self.processes.items():
            said(process, control.READY, self._log(kind))

    def drop_connections(self) -> None:
        """Let each process lose its connections."""
        for kind, process in self.processes.items():
            self._write(kind, process, control.DROP)

    def end(self, revision: str) -> None:
        """Let the callers finish; those that watch decide by a revision then."""
        for kind, process in self.processes.items():
            self._write(kind, process, f"{control.END}{revision}")

    def problems(self) -> Iterator[str]:
        """Yield what was wrong with the first calls that were not answered correctly, without those without retries.

        Raises:
            SoakFailed: a process has ended without a result.
        """
        for kind, process in self.processes.items():
            found = json.loads(said(process, control.RESULT, self._log(kind)))
            yield from (f"{self.route.name}, {series}: {each}" for series in found for each in found[series])

    def samples(self, series: Series) -> Sequence[Sample]:
        """Return the calls of a series."""
        return [*samples(self.results, series)]

    def _write(self, kind: str, process: subprocess.Popen[str], line: str) -> None:
        assert process.stdin is not None
        try:
            process.stdin.write(line + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            raise SoakFailed(f"{kind} has ended; its log ends:\n{ending(self._log(kind))}") from None

    def _log(self, kind: str) -> Path:
        return self.results / f"{kind}.log"


def client_side(replicas: Replicas) -> Route:
    """Return the route on which the client knows every replica."""
    return Route("client-side balancing", replicas.addresses, dict)


@contextmanager
def behind(kind: str, replicas: Replicas, directory: Path) -> Iterator[Route]:
    """Run `envoy` or `nginx` in front of the replicas, by its configuration in `ops`, and yield the route."""
    run = directory / kind
    tls = run / "tls"
    tls.mkdir(parents=True)
    pair = replicas.authority.pair(f"{kind}-balancer")
    files = {"balancer.pem": pair.certificate, "balancer-key.pem": pair.key, "ca.pem": replicas.authority.path}
    for name, source in files.items():
        shutil.copyfile(source, tls / name)
    port, ports = unused_port(), [int(address.rpartition(":")[2]) for address in replicas.addresses]
    log = run / "log"
    process = start(configured(kind, run, port, ports, tls), log)
    try:
        seen(f"{kind} does not listen", lambda: _listens(process, port, log))
        yield Route(kind, (f"127.0.0.1:{port}",), lambda: _family(kind, process.pid))
    finally:
        end(process)


def _listens(process: subprocess.Popen[str], port: int, log: Path) -> bool:
    if process.poll() is not None:
        raise SoakFailed(f"the balancer has ended; its log ends:\n{ending(log)}")
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _family(kind: str, process: int) -> Mapping[str, int]:
    """Return a process and its children."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return {kind: process, **{f"{kind}, worker {n}": int(each) for n, each in enumerate(children, 1)}}


@contextmanager
def calling(route: Route, replicas: Replicas, questions: Questions, directory: Path) -> Iterator[Callers]:
    """Run the callers of a route."""
    results = directory / f"callers-{route.name.replace(' ', '-')}"
    results.mkdir()
    authority = replicas.authority.path.read_bytes()
    Work(route.name, route.addresses, authority, TOKEN, questions, results).write(results / "work")
    with ExitStack() as stack:
        processes = {}
        for kind in _KINDS:
            processes[kind] = start(python(kind, str(results / "work")), results / f"{kind}.log")
            stack.callback(end, processes[kind])
        yield Callers(route, results, processes)
