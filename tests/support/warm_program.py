"""Commands in processes that fork from one which has imported the program: real ones, without a second of imports each.

`python -m support.warm_program` is the process that they fork from. It runs one command after the other.
`python -m support.warm_program libraries` imports only libraries: each command imports its own modules, as a process
that a shell starts does.
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

_ERRORS = ("strict", "strict", "backslashreplace")
_LIBRARIES = (
    *("google.protobuf.json_format", "google.rpc.status_pb2", "grpc.aio", "grpc_health.v1.health_pb2_grpc", "httpx2"),
    *("mcp", "prometheus_client", "pydantic", "rich.console", "ruamel.yaml", "starlette.applications", "typer"),
)
"""What takes most of the time that commands need for their imports."""


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
def warm_program(*, libraries_only: bool = False) -> Iterator[WarmProgram]:
    """Import the program, or its libraries, in a process that ends with the context."""
    command = [sys.executable, "-m", __spec__.name, *(["libraries"] if libraries_only else [])]
    with subprocess.Popen(command, cwd=TESTS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield WarmProgram(process)


def _redirect(streams: Sequence[str]) -> None:
    """Make files the standard streams, as a shell does, and then as Python does at its start.

    The earlier objects stay, as `sys.__stdout__` and so on: they would close these streams.
    """
    for number, file in enumerate(streams):
        opened = os.open(file, os.O_RDWR | os.O_CREAT)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, encoding="utf-8", errors=errors, closefd=False)  # noqa: SIM115  # until the end
        for number, (mode, errors) in enumerate(zip("rww", _ERRORS, strict=True))
    )


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


def _import_all(arguments: Sequence[str]) -> None:
    own = (module.name for module in walk_packages(callability.__path__, "callability."))
    for name in _LIBRARIES if arguments else own:
        if not name.endswith("__main__"):
            import_module(name)


if __name__ == "__main__":
    _import_all(sys.argv[1:])
    _fork_for_each()
