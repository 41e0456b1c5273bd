"""A module that runs in a child process: how the process is started, given a task, ended, and why it failed.

NoOutput            a sentence without its subject
├── CannotStart     the system refused to start the process
├── TimedOut        it took too long
└── Exited          it failed by itself

Most children live for less time than `asyncio` needs for its import, and so do without it.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Thread, Timer
from typing import IO, TypeVar

Output = TypeVar("Output")
MAX_LINE = 300
"""Bytes of the last line of a failure that are kept."""


class NoOutput(Exception):
    """A child process gave no output. The text says why, to be read after what the process was for."""


class CannotStart(NoOutput):
    """The system refused to start the process."""

    def __init__(self, error: OSError) -> None:
        self.reason = (error.strerror or "error").lower()
        super().__init__(f"its process cannot be started: {self.reason}")


class TimedOut(NoOutput):
    """The process took too long."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"it took longer than {seconds:g} seconds")


class Exited(NoOutput):
    """The process failed: its exit code, negative for a signal, and its last line on standard error."""

    def __init__(self, code: int, last_line: str) -> None:
        self.code = code
        if code < 0:
            self.reason = f"it was ended by {signal.Signals(-code).name}"
        else:
            self.reason = last_line or f"it exited with code {code}"
        super().__init__(f"its process failed: {self.reason}")


def command(module: str, *arguments: str) -> tuple[str, ...]:
    """Return the command that runs a module with this Python."""
    # `-P`: a file in the current directory must not stand in for a module of the process.
    return (sys.executable, "-P", "-W", "ignore", "-m", module, *arguments)


_early: dict[tuple[str, ...], subprocess.Popen[bytes]] = {}
"""Processes whose task is not known yet, by their commands."""


def start_early(module: str) -> None:
    """Start the process of the next `Child` of a module, which imports what it needs while its task is found out.

    If it cannot be started, that `Child` says why.
    """
    with suppress(CannotStart):
        _early[command(module)] = _started(command(module), own_group=True)
        atexit.register(_end_unused)


def _started(of: tuple[str, ...], *, own_group: bool) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    try:
        return subprocess.Popen(of, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=own_group)
    except OSError as error:
        raise CannotStart(error) from error


def _end_unused() -> None:
    while _early:
        with _early.popitem()[1] as process:
            end_group(process.pid)


def end_group(process: int) -> None:
    """End a process that leads a group, and those that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)


class Child:
    """A module in a child process. In a group of its own, the processes that it starts end with it.

    Raises:
        CannotStart: the system refuses.
    """

    def __init__(self, module: str, *arguments: str, own_group: bool = True) -> None:
        of = command(module, *arguments)
        early = _early.pop(of, None) if own_group else None
        self._process = early or _started(of, own_group=own_group)
        self._own_group = own_group
        self._last_line = b""

    def exchange(self, task: bytes, seconds: float, read: Callable[[IO[bytes]], Output]) -> Output:
        """Write a task, which the process reads whole before it writes, and return what `read` makes of its output.

        Raises:
            NoOutput: it took longer than `seconds`, or failed.
        """
        process, over = self._process, Event()
        assert process.stdin is not None
        assert process.stdout is not None
        timer = Timer(seconds, self._end_late, (over,))
        errors = Thread(target=self._keep_last_line)
        try:
            with process:
                timer.start()
                errors.start()
                try:
                    _write(process.stdin, task)
                    output = read(process.stdout)
                except BaseException:
                    self.end()
                    raise
                finally:
                    # A process that still writes has to fail: nobody reads on.
                    process.stdout.close()
                    errors.join()
        finally:
            timer.cancel()
        if over.is_set():
            raise TimedOut(seconds)
        if process.returncode:
            raise Exited(process.returncode, self._last_line.decode(errors="replace"))
        return output

    def end(self) -> None:
        """End the process, if it has not ended, and those that it started if it has a group of its own."""
        if self._process.poll() is None:
            if self._own_group:
                end_group(self._process.pid)
            else:
                self._process.kill()

    def _end_late(self, over: Event) -> None:
        over.set()
        self.end()

    def _keep_last_line(self) -> None:
        errors = self._process.stderr
        assert errors is not None
        while line := errors.readline(MAX_LINE):
            self._last_line = line.strip() or self._last_line


def _write(stdin: IO[bytes], task: bytes) -> None:
    """Write a task. A process that ends without reading it says why in its exit code."""
    with suppress(BrokenPipeError):
        stdin.write(task)
    with suppress(BrokenPipeError):
        stdin.close()
