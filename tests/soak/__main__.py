"""`python -m soak`: replicas of a service under load and faults; every answer is compared with the correct one."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from random import Random, SystemRandom
from typing import Annotated

import typer
from rich.console import Console

from soak.faults import Fault, Faults
from soak.memory import Memory
from soak.policies import Policies
from soak.processes import SoakFailed
from soak.reference import questions
from soak.replicas import Replicas, replicas
from soak.report import calls_table, found, grown, memory_table
from soak.routes import Callers, behind, calling, client_side
from soak.work import Series
from support.balancers import MISSING, PROGRAMS

FAULT_SECONDS = 5.0
"""A fault begins this long after the one before, or as soon as that is over."""
_WARM_SHARE = 0.25
"""The share of the time in which processes warm up, at most `_WARM_SECONDS`."""
_WARM_SECONDS = 60.0
_WIDTH = 140


def soak(
    minutes: Annotated[float, typer.Option(min=0.2, max=600, help="For how long callers call.")] = 10,
    seed: Annotated[int | None, typer.Option(help="What faults are drawn from. Default: a new one.")] = None,
) -> None:
    """Call three replicas over TLS while faults happen to them, and print the outcome.

    Exit code 0: every answer was correct, no call was lost after retries, and no process that lived throughout grew by
    more than 5 MiB. 1: something was wrong, and is printed; the logs are kept. 2: a wrong call.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    seed = SystemRandom().randrange(10**6) if seed is None else seed
    directory = Path(tempfile.mkdtemp(prefix="callability-soak-"))
    report = _Progress()
    report(f"seed {seed}; load average {os.getloadavg()[0]:.1f}")
    try:
        problems = _Soak(directory, Random(seed), 60 * minutes, report).run()
    except (KeyboardInterrupt, SystemExit):
        shutil.rmtree(directory)
        raise
    for problem in problems:
        print(f"WRONG: {problem}")
    if problems:
        print(f"Again: FAULTS={seed}. The logs are in {directory}")
        raise typer.Exit(1)
    shutil.rmtree(directory)
    print("Every answer was correct, and no call was lost after retries.")


class _Progress:
    """Prints a line with the seconds since the start."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    def __call__(self, line: str) -> None:
        print(f"{time.monotonic() - self._started:6.1f} s  {line}", file=sys.stderr, flush=True)


class _Soak:
    """One soak: its callers, its faults and its findings."""

    def __init__(self, directory: Path, random: Random, seconds: float, report: Callable[[str], None]) -> None:
        self._directory = directory
        self._random = random
        self._seconds = seconds
        self._report = report
        self._memory = Memory(min(_WARM_SECONDS, _WARM_SHARE * seconds))
        self._faults: list[Fault] = []

    def run(self) -> Sequence[str]:
        """Run it, print its figures, and return what was wrong."""
        policies = Policies(self._directory / "policies")
        compared = questions([each.directory for each in policies.good])
        try:
            with ExitStack() as stack:
                running = stack.enter_context(replicas(self._directory, policies.served))
                self._report(f"{len(running.each)} replicas answer at {', '.join(running.addresses)}")
                routes = [client_side(running)]
                for kind, program in PROGRAMS.items():
                    if program:
                        routes.append(stack.enter_context(behind(kind, running, self._directory)))
                    else:
                        self._report(f"skipped: {kind}, because {MISSING[kind]}")
                callers = [stack.enter_context(calling(route, running, compared, self._directory)) for route in routes]
                for each in callers:
                    each.ready()
                    self._report(f"callers call by {each.route.name}")
                self._happen(running, policies, callers)
                for each in callers:
                    each.end(policies.current.revision)
                examples = [*chain.from_iterable(each.problems() for each in callers)]
            return self._findings(callers, examples)
        except SoakFailed as error:
            return [str(error)]

    def _happen(self, running: Replicas, policies: Policies, callers: Sequence[Callers]) -> None:
        """Let faults happen until the time is over."""

        def drop() -> None:
            for each in callers:
                each.drop_connections()

        faults = Faults(running, policies, drop, self._random)
        end = time.monotonic() + self._seconds
        due = time.monotonic() + FAULT_SECONDS
        while due < end:
            time.sleep(max(0.0, due - time.monotonic()))
            self._look(running, callers)
            due = time.monotonic() + FAULT_SECONDS
            self._faults.append(faults.next(self._report))
        time.sleep(max(0.0, end - time.monotonic()))
        self._look(running, callers)

    def _look(self, running: Replicas, callers: Sequence[Callers]) -> None:
        for replica in running.each:
            self._memory.look(f"replica {replica.number}", replica.process.pid)
        for each in callers:
            for kind, process in each.processes.items():
                self._memory.look(f"{kind}, {each.route.name}", process.pid)
            for name, process_id in each.route.processes().items():
                self._memory.look(name, process_id)

    def _findings(self, callers: Sequence[Callers], examples: Sequence[str]) -> Sequence[str]:
        series = [found(each.route.name, kind, each.samples(kind), self._faults) for each in callers for kind in Series]
        growths = [*self._memory.growths()]
        console = Console(width=_WIDTH)
        console.print(calls_table(series))
        console.print(memory_table(growths))
        problems = [problem for each in series for problem in each.problems]
        return [*problems, *(examples if problems else ()), *grown(growths)]


if __name__ == "__main__":
    typer.run(soak)
