"""Commands in processes that fork from one which has imported the program: real ones, without a second of imports each.

`python -m support.warm_program` is the process that they fork from. It runs one command after the other.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import callability
from callability.cli import main as run_command
from support.checkout import TESTS

CLOSED = ""
"""In place of the file of a standard stream: the stream is closed."""
_ERRORS = ("strict", "strict", "backslashreplace")


class WarmProgram:
    """Runs commands."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, arguments: Sequence[str], directory: Path, streams: tuple[str, str, str]) -> int:
        """Run a command in a directory with files as its standard input, output and errors; return its exit code."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps([[*arguments], str(directory), streams]), file=self._process.stdin, flush=True)
        return int(self._process.stdout.readline())


@contextmanager
def warm_program() -> Iterator[WarmProgram]:
    """Import the program in a process that ends with the context."""
    command = [sys.executable, "-m", __spec__.name]
    with subprocess.Popen(command, cwd=TESTS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield WarmProgram(process)


def _redirect(streams: Sequence[str]) -> None:
    """Make files the standard streams, as a shell does, and then as Python does at its start.

    The earlier objects stay, as `sys.__stdout__` and so on: they would close these streams.
    """
    for number, file in enumerate(streams):
        opened = os.open(file or os.devnull, os.O_RDWR | os.O_CREAT)
        os.dup2(opened, number)
        os.close(opened)
    for number, file in enumerate(streams):
        if file == CLOSED:
            os.close(number)
    made = [
        None if file == CLOSED else open(number, mode, encoding="utf-8", errors=errors, closefd=False)  # noqa: SIM115  # until the end
        for number, (file, mode, errors) in enumerate(zip(streams, "rww", _ERRORS, strict=True))
    ]
    sys.stdin, sys.stdout, sys.stderr = made


def _fork_for_each() -> None:
    """Print the exit code of each command of standard input."""
    for line in sys.stdin:
        if child := os.fork():
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
            continue
        arguments, directory, streams = json.loads(line)
        os.chdir(directory)
        _redirect(streams)
        sys.argv = ["callability", *arguments]
        run_command()


if __name__ == "__main__":
    for module in walk_packages(callability.__path__, "callability."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    _fork_for_each()
