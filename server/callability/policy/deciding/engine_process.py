"""Running the rules engine in a process of its own, with a time limit; what comes back is plain data."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from tempfile import TemporaryFile
from threading import Event, Timer
from typing import IO

from callability.finding import Finding, Place
from callability.policy.deciding import engine

CPU_LIMIT = 60
"""Seconds of processor time that a process of the engine may take. A busy machine does not shorten them."""

OnProgress = Callable[[int, int], None]
"""Called with how many more combinations are decided, and how many more there are to decide."""


@dataclass(frozen=True, slots=True)
class EngineOutput:
    """The engine's name, and what its process writes: for each event the block and conjunction that decided."""

    engine: str
    decisions: list[list[int]]


class NotDecided(Exception):
    """The combinations could not be decided. It carries the finding."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(str(finding))
        self.finding = finding


def run(task: str, place: Place, seconds: float, progress: OnProgress, *, cpu_seconds: int = CPU_LIMIT) -> EngineOutput:
    """Let a process decide a task, and end it when the time is over.

    Raises:
        NotDecided: it failed, took longer than `seconds`, or more than `cpu_seconds` of processor time.
        ModuleNotFoundError: durable-rules cannot be imported.
    """
    # `-P`: a file in the current directory must not stand in for a module of the engine's process.
    command = [sys.executable, "-P", "-W", "ignore", "-m", engine.__name__, str(cpu_seconds)]
    over = Event()
    with TemporaryFile("w+") as errors:
        try:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True)
        except OSError as error:
            sentence = f"the rules engine's process cannot be started: {(error.strerror or 'error').lower()}"
            raise NotDecided(Finding(place, "engine-failed", sentence)) from error
        timer = Timer(seconds, _end, (process, over))
        timer.start()
        # What this imports takes a while, in which the process starts.
        from importlib.metadata import version  # noqa: PLC0415

        try:
            with process:
                written = _exchange(process, task, progress)
        finally:
            timer.cancel()
        if over.is_set():
            raise _timeout(place, f"{seconds:g} seconds")
        if process.returncode == -signal.SIGXCPU:
            raise _timeout(place, f"{cpu_seconds} seconds of processor time")
        if process.returncode == engine.UNAVAILABLE:
            raise ModuleNotFoundError("durable-rules")
        if process.returncode:
            sentence = f"the rules engine failed: {_last_words(process.returncode, errors)}"
            raise NotDecided(Finding(place, "engine-failed", sentence))
    if written is None:
        raise NotDecided(Finding(place, "engine-failed", "the rules engine's process wrote no decisions"))
    return EngineOutput(f"durable-rules {version('durable-rules')}", written)


def _timeout(place: Place, limit: str) -> NotDecided:
    sentence = f"the rules engine did not decide within {limit}"
    return NotDecided(Finding(place, "engine-timeout", sentence, "the policy is too large"))


def _exchange(process: subprocess.Popen[str], task: str, progress: OnProgress) -> list[list[int]] | None:
    """Write the task, which the process reads whole before it decides, and read what it decides."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(BrokenPipeError):
        process.stdin.write(task)
        process.stdin.close()
    decisions: list[list[int]] = []
    try:
        for line in process.stdout:
            part = json.loads(line)
            decisions += part
            progress(len(part), 0)
    except ValueError:
        return None
    return decisions


def _end(process: subprocess.Popen[str], over: Event) -> None:
    over.set()
    process.kill()


def _last_words(code: int, errors: IO[str]) -> str:
    if code < 0:
        return f"it was ended by {signal.Signals(-code).name}"
    errors.seek(0)
    lines = errors.read().strip().splitlines()
    return lines[-1][:300] if lines else f"it exited with code {code}"
