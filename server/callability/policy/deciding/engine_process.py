"""Running the rules engine in a child process with a time limit; it returns plain data."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import IO

from callability.child_process.child import CannotStart, Child, Exited, TimedOut
from callability.finding import Finding, Place
from callability.policy.deciding import engine
from callability.policy.deciding.not_decided import NotDecided

CPU_LIMIT = 60
"""Seconds of processor time that a process of the engine may take. A busy machine does not shorten them."""

OnProgress = Callable[[int, int], None]
"""Called with how many more combinations are decided, and how many more there are to decide."""


@dataclass(frozen=True, slots=True)
class EngineOutput:
    """The engine's name, and what its process writes: for each event the block and conjunction that decided."""

    engine: str
    decisions: list[list[int]]


def run(task: str, place: Place, seconds: float, progress: OnProgress, *, cpu_seconds: int = CPU_LIMIT) -> EngineOutput:
    """Let a process decide a task, and end it when the time is over.

    Raises:
        NotDecided: it failed, took longer than `seconds`, or more than `cpu_seconds` of processor time.
        ModuleNotFoundError: durable-rules cannot be imported.
    """
    try:
        # In the group of this process, so that it ends with it.
        process = Child(engine.__name__, str(cpu_seconds), own_group=False)
        # What this imports takes a while, in which the process starts.
        from importlib.metadata import version  # noqa: PLC0415

        written = process.exchange(task.encode(), seconds, partial(_decisions, progress))
    except CannotStart as error:
        sentence = f"the rules engine's process cannot be started: {error.reason}"
        raise NotDecided(Finding(place, "engine-failed", sentence)) from error
    except TimedOut:
        raise _timeout(place, f"{seconds:g} seconds") from None
    except Exited as error:
        if error.code == -signal.SIGXCPU:
            raise _timeout(place, f"{cpu_seconds} seconds of processor time") from None
        if error.code == engine.UNAVAILABLE:
            raise ModuleNotFoundError("durable-rules") from None
        raise NotDecided(Finding(place, "engine-failed", f"the rules engine failed: {error.reason}")) from None
    if written is None:
        raise NotDecided(Finding(place, "engine-failed", "the rules engine's process wrote no decisions"))
    return EngineOutput(f"durable-rules {version('durable-rules')}", written)


def _timeout(place: Place, limit: str) -> NotDecided:
    sentence = f"the rules engine did not decide within {limit}"
    return NotDecided(Finding(place, "engine-timeout", sentence, "the policy is too large"))


def _decisions(progress: OnProgress, output: IO[bytes]) -> list[list[int]] | None:
    """Read what the process decides; None if that is not JSON."""
    decisions: list[list[int]] = []
    try:
        for line in output:
            part = json.loads(line)
            decisions += part
            progress(len(part), 0)
    except ValueError:
        return None
    return decisions
