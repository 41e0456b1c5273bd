"""The real programs, run as processes that end with their test."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.warm_program import shared_program

COMMAND = (sys.executable, "-m", "callability")
_POPEN = subprocess.Popen
_PYTHONPATH = os.environ.get("PYTHONPATH")
_SMALL = ("/bin/sh", "-c", '"$@"; exit $?', "sh")
"""A small process that forks once more: it does not replace itself, because the exit follows."""


_MEASURING = {"COVERAGE_PROCESS_CONFIG", "COVERAGE_PROCESS_START"}
"""Variables by which coverage is measured in processes too."""
_forking: list[bool] = []
"""Whether commands fork from a process that has imported the program."""


def fork_commands() -> None:
    """Let `start` fork from a process that has imported the program, from now on, unless it has to be fresh.

    Coverage measures nothing in what is forked, and only Linux gives a process to another parent.
    """
    _forking.append(sys.platform == "linux" and not _MEASURING & os.environ.keys())


def forks_commands() -> bool:
    """Say whether commands fork."""
    return any(_forking)


def start(*arguments: str, fresh: bool = False, **options: Any) -> subprocess.Popen[Any]:
    """Start a command, with options of `subprocess.Popen`.

    What looks at the modules, the memory or the time of a start, or has to check the shipped policy, has to have a
    `fresh` process. So is one that a test gives a `PYTHONPATH`: it may import something else.
    """
    other_modules = (options.get("env") or os.environ).get("PYTHONPATH") not in {None, _PYTHONPATH}
    if forks_commands() and not fresh and not other_modules:
        return shared_program().process(*arguments, **options)
    return _POPEN([*COMMAND, *arguments], **options)


def command_of_shells() -> tuple[str, ...]:
    """Return the command for a shell, which gives it its standard streams: it forks too, and so needs all three."""
    return (str(shared_program().commands / "callability"),) if forks_commands() else COMMAND


def command_of_script(script: Path) -> tuple[str, ...]:
    """Return the command that runs a server on the SDK of MCP, which takes a second to import: it forks too."""
    python = str(shared_program().commands / "python") if forks_commands() else sys.executable
    return (python, str(script))


def _start_or_run(command: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
    if tuple(command[: len(COMMAND)]) == COMMAND:
        return start(*command[len(COMMAND) :], **options)
    return _POPEN(command, **options)


_starting: list[None] = []
"""An item for each context of `starting_commands`: tasks of one event loop may leave theirs in any order."""


@contextmanager
def starting_commands() -> Iterator[None]:
    """Let others start commands as `start` does, inside the context."""
    _starting.append(None)
    vars(subprocess)["Popen"] = _start_or_run
    try:
        yield
    finally:
        _starting.pop()
        if not _starting:
            vars(subprocess)["Popen"] = _POPEN


def callability_process(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command as a process, to its end."""
    pipe = subprocess.PIPE
    with start(*arguments, stdout=pipe, stderr=pipe, text=True, **options) as process:
        try:
            out, err = process.communicate(timeout=120)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess([*COMMAND, *arguments], process.returncode, out, err)


def run_from_small_process(command: Sequence[str], directory: Path, seconds: float) -> subprocess.CompletedProcess[str]:
    """Run a program that limits its own memory by its peak (`ru_maxrss`), to its end.

    A program begins with the peak of the process that becomes it. After a fork in this process, that is the peak of all
    tests that ran here.
    """
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [*_SMALL, *command], cwd=directory, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    ) as process:
        try:
            out, err = process.communicate(timeout=seconds)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


@dataclass(frozen=True, slots=True)
class Service:
    """A process of `callability serve`, and the address that it listens on."""

    address: str
    process: subprocess.Popen[str]


def children_of(process: int) -> list[str]:
    """Return the ids of the processes that a process has started."""
    found: list[str] = []
    for thread in Path(f"/proc/{process}/task").iterdir():
        with suppress(FileNotFoundError):
            found += (thread / "children").read_text().split()
    return found


def resident(running: Service, kind: str = "VmRSS") -> int:
    """Return the resident memory of a service in MiB, or with `VmHWM` the most that it had."""
    status = Path(f"/proc/{running.process.pid}/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith(f"{kind}:")]
    return int(line.split()[1]) // 1024


@contextmanager
def serving(*arguments: str, address: str = "127.0.0.1:0", log: Path | None = None) -> Iterator[str]:
    """Run `callability serve` and yield the address that it listens on."""
    with service(*arguments, address=address, log=log) as running:
        yield running.address


@contextmanager
def service(
    *arguments: str,
    address: str = "127.0.0.1:0",
    log: Path | None = None,
    before: Sequence[str] = (),
    fresh: bool = False,
) -> Iterator[Service]:
    """Run `callability serve` and yield its process with the address that it listens on; its log goes to a file.

    `before` is a program that becomes the service, with its options; `fresh` is that of `start`.
    """
    command = ("serve", "--address", address, *arguments)
    with log.open("w") if log else nullcontext(subprocess.PIPE) as errors, ExitStack() as stack:
        streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": errors, "text": True}
        if before:
            started = subprocess.Popen([*before, *COMMAND, *command], **streams)
        else:
            started = start(*command, fresh=fresh, **streams)
        process = stack.enter_context(started)
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("listening on "), (process.communicate(), log.read_text() if log else "")
            yield Service(line.removeprefix("listening on ").strip(), process)
        finally:
            process.terminate()
            process.communicate(timeout=120)


def unused_port() -> int:
    """Return a port on which no process listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
