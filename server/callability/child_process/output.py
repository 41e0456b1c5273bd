"""Work in a process of its own, with a time limit: it can neither hold up nor harm the service."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import suppress


class NoAnswer(Exception):
    """The process gave none; the text says why, as the end of a sentence."""


async def answer_of(module: str, task: bytes, seconds: float) -> bytes:
    """Run a module of this package, hand it a task on standard input, and return what it writes to standard output.

    Whoever stops waiting ends the process, and those that it started.

    Raises:
        NoAnswer: it took longer than `seconds`, or failed.
    """
    # `-P`: a file in the current directory must not stand in for a module of the process.
    command = [sys.executable, "-P", "-W", "ignore", "-m", module]
    try:
        process = subprocess.Popen(  # noqa: ASYNC220  # under uvloop the end of a child's pipe can go unnoticed
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
    except OSError as error:
        raise NoAnswer(f"its process cannot be started: {(error.strerror or 'error').lower()}") from error
    try:
        answer, errors = await asyncio.to_thread(_communicated, process, task, seconds)
    finally:
        _end(process)
    if process.returncode < 0:
        raise NoAnswer(f"its process was ended by {signal.Signals(-process.returncode).name}")
    if process.returncode:
        raise NoAnswer(f"its process failed: {_last_line(errors)}")
    return answer


def _communicated(process: subprocess.Popen[bytes], task: bytes, seconds: float) -> tuple[bytes, bytes]:
    try:
        return process.communicate(task, seconds)
    except subprocess.TimeoutExpired:
        _end(process)
        process.communicate()
        raise NoAnswer(f"it took longer than {seconds:g} seconds") from None


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and those that it started, if it has not ended."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _last_line(errors: bytes) -> str:
    lines = errors.decode(errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else "it says nothing"
