"""Commands in processes that fork from one which has imported the program: real ones, without a second of imports each.

`python -m support.warm_program SOCKET CALLED` is the process that they fork from. `SOCKET` is the number of its end of
a pair. `CALLED` is that of a socket on which scripts call: one that a shell finds as the command, and others that run
servers on the SDK of MCP.

The program has checked the shipped policy too. What a test measures of a start (modules, memory, time), or whether it
checks that policy, needs a process that is not warm.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from runpy import run_path
from select import select
from tempfile import TemporaryDirectory
from typing import Any

import callability
from callability.cli import main as run_command
from support.checkout import TESTS

SERVERS = {"mcp-server-git": "mcp_server_git", "mcp-server-time": "mcp_server_time"}
"""Servers on the SDK, with their modules; a checkout may lack them."""
_COMMAND = "callability"
_ERRORS = ("strict", "strict", "backslashreplace")
_LENGTH = 4
"""Bytes that say how long a request is, or with which code a command ended."""
_SCRIPT = """
import _socket, json, os, signal

connection = _socket.socket(_socket.AF_UNIX)
connection.connect(ADDRESS)
start = {
    "arguments": PROGRAM + os.sys.argv[1:], "directory": os.getcwd(), "environment": dict(os.environ),
    "leads_session": False
}
request = json.dumps(start).encode()
streams = b"".join(number.to_bytes(4, os.sys.byteorder) for number in range(3))
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
    signal.signal(number, lambda number, _: connection.send(bytes([number])))
connection.sendmsg([len(request).to_bytes(4, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
connection.sendall(request)
code = int.from_bytes(connection.recv(4), "big", signed=True)
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
"""
"""A command as another process starts it: it passes its streams and signals on, and ends as the process that forks."""
_ADOPT_ORPHANS = 36
"""`PR_SET_CHILD_SUBREAPER` of Linux's `prctl`."""


def _servers() -> dict[str, list[str]]:
    """Return the scripts of the servers that are installed."""
    scripts = {name: Path(sys.executable).with_name(name) for name in SERVERS}
    return {name: [str(script)] for name, script in scripts.items() if script.exists()}


class WarmProgram:
    """A process that has imported the program, and from which commands fork."""

    def __init__(self) -> None:
        self._directory = TemporaryDirectory(prefix="c-")
        self.commands = Path(self._directory.name)
        """A directory with a `callability` that others start: what it does is done by a process that forks here.

        So it is with the servers in `SERVERS`, and with `python`, which runs a script.
        """
        self._socket, theirs = socket.socketpair()
        called = socket.socket(socket.AF_UNIX)
        called.bind(str(self.commands / "socket"))
        called.listen()
        for name, program in {"callability": [_COMMAND], "python": [], **_servers()}.items():
            script = self.commands / name
            constants = f"ADDRESS = {str(self.commands / 'socket')!r}\nPROGRAM = {program!r}\n"
            script.write_text(f"#!{sys.executable} -IS\n{constants}{_SCRIPT}")
            script.chmod(0o755)
        numbers = [theirs.fileno(), called.fileno()]
        command = [sys.executable, "-m", "support.warm_program", *map(str, numbers)]
        with theirs, called:
            self._process = subprocess.Popen(command, cwd=TESTS, pass_fds=numbers)
        self._one_at_a_time = threading.Lock()

    def process(self, *arguments: str, **options: Any) -> subprocess.Popen[Any]:
        """Start a command, with options of `subprocess.Popen`, as a child of this process."""
        return _Forked(self, arguments, **options)

    def run(self, arguments: Sequence[str], directory: Path, streams: tuple[str, str, str]) -> int:
        """Run a command in a directory with files as its standard input, output and errors; return its exit code."""
        opened = [os.open(file, os.O_RDWR | os.O_CREAT) for file in streams]
        try:
            with self.process(
                *arguments, cwd=directory, **dict(zip(("stdin", "stdout", "stderr"), opened, strict=True))
            ) as process:
                return process.wait()
        finally:
            for number in opened:
                os.close(number)

    def fork(self, start: dict[str, Any], streams: Sequence[int]) -> int:
        """Fork a process that becomes a child of this one; return its id."""
        request = json.dumps(start).encode()
        with self._one_at_a_time, _orphans_adopted():
            socket.send_fds(self._socket, [len(request).to_bytes(_LENGTH)], streams)
            self._socket.sendall(request)
            return int.from_bytes(_read(self._socket, _LENGTH))

    def close(self) -> None:
        """End the process."""
        self._socket.close()
        self._process.wait()
        self._directory.cleanup()


@cache
def shared_program() -> WarmProgram:
    """The program, imported once for all tests of this process."""
    program = WarmProgram()
    atexit.register(program.close)
    return program


class _Forked(subprocess.Popen[Any]):
    """A process that another one forks for this one. Its standard streams are made and used as those of any other."""

    def __init__(self, program: WarmProgram, arguments: Sequence[str], **options: Any) -> None:
        self._program = program
        super().__init__(arguments, **options)

    def _execute_child(self, args: Any, *others: Any) -> None:
        [_, _, _, _, directory, environment, _, _, _, *pipes, _, _, _, _, _, leads_session, _] = others
        start = {
            "arguments": [_COMMAND, *(os.fspath(each) for each in args)],
            "directory": os.fspath(directory or Path.cwd()),
            "environment": dict(os.environ if environment is None else environment),
            "leads_session": leads_session,
        }
        theirs = (pipes[0], pipes[3], pipes[5])
        self.pid = self._program.fork(start, [number if pipe == -1 else pipe for number, pipe in enumerate(theirs)])
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]  # typeshed has no such method


@contextmanager
def _orphans_adopted() -> Iterator[None]:
    """Become the parent of processes below this one whose own parent ends meanwhile."""
    _adopt_orphans(adopts=True)
    try:
        yield
    finally:
        _adopt_orphans(adopts=False)


def _adopt_orphans(*, adopts: bool) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(_ADOPT_ORPHANS, int(adopts), 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def _read(connection: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        part = connection.recv(length - len(data))
        assert part, "the process that commands fork from has ended"
        data += part
    return data


def _fork_for_each(connection: socket.socket, called: socket.socket) -> None:
    """Fork a process for each request, and answer with its id. Returns in each of these, as what it asks for."""
    while True:
        if called in select([connection, called], [], [])[0]:
            if _forks_for_call(called.accept()[0]):
                return
            continue
        start, streams = _request_of(connection)
        if not start:
            os._exit(0)
        pid_reader, pid_writer = os.pipe()
        go_reader, go_writer = os.pipe()
        if middle := os.fork():
            os.waitpid(middle, 0)
            connection.sendall(os.read(pid_reader, _LENGTH))
            for number in (pid_reader, pid_writer, go_reader, go_writer, *streams):
                os.close(number)
            continue
        # Its parent ends at once, so that the process which asks becomes its parent.
        if child := os.fork():
            os.write(pid_writer, child.to_bytes(_LENGTH))
            os._exit(0)
        os.close(go_writer)
        os.read(go_reader, 1)
        _become(start, streams)
        return


def _request_of(connection: socket.socket) -> tuple[dict[str, Any], Sequence[int]]:
    """Read what a process is started with, which is nothing at the end of the connection, and its streams."""
    head, streams, _, _ = socket.recv_fds(connection, _LENGTH, len(_ERRORS))
    return json.loads(_read(connection, int.from_bytes(head))) if head else {}, streams


def _forks_for_call(connection: socket.socket) -> bool:
    """Fork a process that answers a call of the script, and return whether this is the command that it forks."""
    if middle := os.fork():
        connection.close()
        os.waitpid(middle, 0)
        return False
    if os.fork():
        os._exit(0)
    start, streams = _request_of(connection)
    if not start:
        os._exit(0)
    command = os.fork()
    if not command:
        connection.close()
        _become(start, streams)
        return True
    for number in streams:
        os.close(number)
    ended = os.pidfd_open(command)
    while ended not in select([connection.fileno(), ended], [], [])[0]:
        # A script that was killed takes its command with it.
        [sent] = connection.recv(1) or [signal.SIGKILL]
        os.kill(command, sent)
    with suppress(BrokenPipeError):
        code = os.waitstatus_to_exitcode(os.waitpid(command, 0)[1])
        connection.sendall(code.to_bytes(_LENGTH, signed=True))
    os._exit(0)


def _become(start: dict[str, Any], streams: Sequence[int]) -> None:
    """Take what a process is started with."""
    if start["leads_session"]:
        os.setsid()
    _redirect(streams)
    os.closerange(len(streams), 1024)
    os.chdir(start["directory"])
    os.environ.clear()
    os.environ.update(start["environment"])
    sys.argv = start["arguments"]


def _redirect(streams: Sequence[int]) -> None:
    """Make files the standard streams, as a shell does, and then as Python does at its start.

    The earlier objects stay, as `sys.__stdout__` and so on: they would close these streams.
    """
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, encoding="utf-8", errors=errors, closefd=False)  # noqa: SIM115  # until the end
        for number, (mode, errors) in enumerate(zip("rww", _ERRORS, strict=True))
    )


def _import_program() -> None:
    """Import every module, read certificates and check the shipped policy, which a command then need not do again."""
    # An environment with a part of the program has no commands that fork.
    from support.certificates import read_system_certificates_once  # noqa: PLC0415
    from support.shipped_policy import check_it_now  # noqa: PLC0415  # it imports much of the program

    read_system_certificates_once()
    check_it_now()
    for module in walk_packages(callability.__path__, "callability."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    for name in _servers():
        import_module(SERVERS[name])


def _run() -> object:
    """Run the command, or a script, and return with which code it exits."""
    try:
        if sys.argv[0] == _COMMAND:
            run_command()
        else:
            sys.path[0] = str(Path(sys.argv[0]).parent)
            run_path(sys.argv[0], run_name="__main__")
    except SystemExit as ended:
        return ended.code
    return 0


def _run_to_end() -> None:
    """Exit as Python does, but free no object: it takes 80 ms, and nobody sees it."""
    code = _run()
    if isinstance(code, int):
        threading._shutdown()  # type: ignore[attr-defined]  # typeshed has no such function
        atexit._run_exitfuncs()
        # If it cannot be written, Python finds that too, and has an exit code for it.
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    sys.exit(code)  # type: ignore[arg-type]


if __name__ == "__main__":
    # As in a script: the name of the command is then that of its file.
    globals()["__package__"] = None
    gc.disable()
    _import_program()
    gc.freeze()
    gc.enable()
    _fork_for_each(*(socket.socket(fileno=int(number)) for number in sys.argv[1:3]))
    _run_to_end()
