"""Processes of a soak: each ends by its handle, and also if the soak is killed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from support.checkout import ROOT

END_SECONDS = 30.0
"""How long a process may take to end. It is killed afterwards."""


class SoakFailed(Exception):
    """The soak cannot go on; the text says why."""


def start(command: Sequence[str], log: Path) -> subprocess.Popen[str]:
    """Start a process that reads and writes lines; its log is appended to a file.

    It is in a group of its own, so that Ctrl+C reaches the soak alone, which ends it. Call this from the main thread:
    the process is ended when the thread that started it is gone.
    """
    guard = shutil.which("setpriv")
    guarded = [guard, "--pdeathsig", "TERM", *command] if guard else [*command]
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'tests'}:{ROOT}", "PYTHONUNBUFFERED": "1"}
    with log.open("a") as errors:
        return subprocess.Popen(
            guarded,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=ROOT,
            env=environment,
            process_group=0,
        )


def python(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module."""
    return [sys.executable, "-m", module, *arguments]


def said(process: subprocess.Popen[str], expected: str, log: Path) -> str:
    """Return the next line of a process, which begins with an expected text.

    Raises:
        SoakFailed: the process writes something else, or ends.
    """
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line.startswith(expected):
        raise SoakFailed(
            f"a process wrote {line!r} in place of {expected!r}; its log ends:\n{log.read_text()[-2_000:]}"
        )
    return line.removeprefix(expected).strip()


def ending(log: Path) -> str:
    """Return the last lines of a log."""
    return log.read_text()[-2_000:]


def end(process: subprocess.Popen[str]) -> None:
    """End a process that may be stopped, and wait until it is gone."""
    if process.poll() is None:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
