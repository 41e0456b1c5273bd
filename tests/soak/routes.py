"""The ways by which callers reach the replicas, and the processes of callers on each."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from soak import asyncio_callers, blocking_callers, control
from soak.processes import SoakFailed, end, ending, python, said, start
from soak.reference import Questions
from soak.replicas import TOKEN, Replicas
from soak.work import Sample, Series, Work, samples

_KINDS = (asyncio_callers.__name__, blocking_callers.__name__)


@dataclass(frozen=True, slots=True)
class Route:
    """A way to the replicas: the addresses that callers are given, and the processes on it, which live throughout."""

    name: str
    addresses: tuple[str, ...]
    processes: Mapping[str, int]


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
    return Route("client-side balancing", replicas.addresses, {})


@contextmanager
def calling(route: Route, replicas: Replicas, questions: Questions, directory: Path) -> Iterator[Callers]:
    """Run the callers of a route."""
    results = directory / route.name.replace(" ", "-")
    results.mkdir()
    authority = replicas.authority.path.read_bytes()
    Work(route.name, route.addresses, authority, TOKEN, questions, results).write(results / "work")
    with ExitStack() as stack:
        processes = {}
        for kind in _KINDS:
            processes[kind] = start(python(kind, str(results / "work")), results / f"{kind}.log")
            stack.callback(end, processes[kind])
        yield Callers(route, results, processes)
