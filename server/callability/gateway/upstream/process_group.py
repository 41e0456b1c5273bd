"""A child process that leads a process group: its output in bounded memory, and the end of the whole group."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from asyncio.subprocess import SubprocessStreamProtocol
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import anyio
from mcp.client.stdio import get_default_environment

from callability.gateway.upstream.failure import MESSAGE_BYTES

CHUNK_BYTES = 64 * 1024
# Enough for the few short members of a message besides its large one.
END_BYTES = 4 * 1024

_SPACE = r"[ \t\r]*"
_STRING = r'"(?:[^"\\]|\\.)*"'
_NAME = rf"{_SPACE}({_STRING}){_SPACE}:{_SPACE}"
_SCALAR = rf"({_STRING}|-?\d+(?![\d.eE])|null|true|false)"
_FIRST_MEMBER = re.compile(rf"{_NAME}(?:{_SCALAR}{_SPACE},)?")
# What stands between the end of an object and the end of the line is a member of the message itself.
_LAST_MEMBERS = re.compile(rf"\}}((?:{_SPACE},{_NAME}{_SCALAR})+){_SPACE}\}}{_SPACE}\Z")
_MEMBER = re.compile(_NAME + _SCALAR)
_ANSWERS = frozenset({"result", "error"})


@dataclass(frozen=True, slots=True)
class LongLine:
    """The two ends of a line of more than `MESSAGE_BYTES`."""

    head: bytes
    tail: bytes

    def answered_id(self) -> int | str | None:
        """Return the id of the request that the line answers; None if it answers none, or if that is uncertain."""
        try:
            first = list(_first_members(self.head.decode("utf-8", "replace")))
            last = list(_last_members(self.tail.decode("utf-8", "replace")))
        except ValueError:
            return None
        if not first or first[-1][0] not in _ANSWERS:
            return None
        ids = [value for name, value in (*first[:-1], *last) if name == "id"]
        return ids[0] if len(ids) == 1 and type(ids[0]) in {int, str} else None


class Lines:
    """The lines of a stream, without their ends; the last one may have none."""

    def __init__(self, stream: asyncio.StreamReader) -> None:
        self._stream = stream
        self._ready: deque[bytes | LongLine] = deque()
        self._head = b""
        self._line = bytearray()

    def __aiter__(self) -> Lines:
        return self

    async def __anext__(self) -> bytes | LongLine:
        while not self._ready:
            chunk = await self._stream.read(CHUNK_BYTES)
            if not chunk and not self._line:
                raise StopAsyncIteration
            self._read(chunk or b"\n")
        return self._ready.popleft()

    def _read(self, chunk: bytes) -> None:
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            self._extend(end)
            self._ready.append(LongLine(self._head, bytes(self._line)) if self._head else bytes(self._line))
            self._head = b""
            self._line.clear()
        self._extend(rest)

    def _extend(self, part: bytes) -> None:
        self._line += part
        if not self._head and len(self._line) > MESSAGE_BYTES:
            self._head = bytes(self._line[:END_BYTES])
        if self._head:
            del self._line[:-END_BYTES]


def _first_members(text: str) -> Iterator[tuple[str, Any]]:
    """Yield the members of an object with which a text begins, up to the first one whose value is not short."""
    start = re.match(rf"{_SPACE}\{{", text)
    while start and (start := _FIRST_MEMBER.match(text, start.end())):
        name, value = start.groups()
        yield json.loads(name), None if value is None else json.loads(value)
        if value is None:
            return


def _last_members(text: str) -> Iterator[tuple[str, Any]]:
    """Yield the members of the message that follow its large one."""
    last = _LAST_MEMBERS.search(text)
    for name, value in _MEMBER.findall(last[1] if last else ""):
        yield json.loads(name), json.loads(value)


# An exited child's last lines are read for this long: a grandchild that holds the pipe open would never let it end.
LAST_WORDS_SECONDS = 0.5
# The stages of an end and how long each may take; before the first one stdin is closed.
STAGES = ((None, 1.5), (signal.SIGTERM, 1.0), (signal.SIGKILL, 1.0))
POLL_SECONDS = 0.02


_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
_USUAL = frozenset(
    {
        *(*_PROXIES, *map(str.lower, _PROXIES)),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
        *("LANG", "LANGUAGE", "TZ", "TMPDIR", "TMP", "TEMP"),
    }
)
_LOCALE = "LC_"


def usual_environment(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables that every child gets: those by which programs find their user, proxies, certificates,
    language, time zone and folder for temporary files.
    """
    usual = {name: value for name, value in environment.items() if name in _USUAL or name.startswith(_LOCALE)}
    return get_default_environment() | usual


class ChildProtocol(SubprocessStreamProtocol):
    """asyncio's own, and an event for the exit: `Process.wait()` returns only when every pipe has ended too."""

    def __init__(self) -> None:
        super().__init__(limit=CHUNK_BYTES, loop=asyncio.get_running_loop())
        self.exited = asyncio.Event()

    def process_exited(self) -> None:
        """Note the exit, even if another process still holds the pipes."""
        super().process_exited()
        self.exited.set()


class GroupLeader:
    """A running child, the leader of its own process group."""

    def __init__(self, transport: asyncio.SubprocessTransport, protocol: ChildProtocol) -> None:
        assert protocol.stdin is not None
        assert protocol.stdout is not None
        assert protocol.stderr is not None
        self.stdin = protocol.stdin
        self.stdout = protocol.stdout
        self.stderr = protocol.stderr
        self.exited = protocol.exited
        self.followed = asyncio.Event()
        """Set when its standard error has been read to the end."""
        self.stopping = False
        self._transport = transport
        self._group = transport.get_pid()

    @property
    def exit_code(self) -> int | None:
        """The code with which it exited, negative for a signal; None while it runs."""
        return self._transport.get_returncode()

    async def stop(self) -> None:
        """Close the child's stdin, then end its group with stronger signals; return when all are gone or given up."""
        self.stopping = True
        gone = False
        try:
            self.stdin.close()
            for number, seconds in STAGES:
                if number is not None:
                    self._signal(number)
                with anyio.move_on_after(seconds):
                    await self._wait_until_gone()
                    gone = True
                    break
            # Its last lines say why it ended; another process that holds the pipe would never let them end.
            with anyio.move_on_after(LAST_WORDS_SECONDS):
                await self.followed.wait()
        finally:
            # Reached with the group alive when the owner's task is cancelled from outside: nothing may be left then.
            if not gone:
                self._signal(signal.SIGKILL)
            if self.stdin.transport.get_write_buffer_size():
                # It would close once the rest is read, and a process outside the group may hold it and never read.
                self.stdin.transport.abort()
            self._transport.close()
        with anyio.move_on_after(LAST_WORDS_SECONDS), suppress(OSError):
            await self.stdin.wait_closed()

    async def _wait_until_gone(self) -> None:
        await self.exited.wait()
        while self._signal(0):
            self._reap()
            await anyio.sleep(POLL_SECONDS)

    def _reap(self) -> None:
        """Take the exits of grandchildren that fell to this process, as to the first one of a container."""
        with suppress(ChildProcessError):
            while os.waitpid(-self._group, os.WNOHANG)[0]:
                pass

    def _signal(self, number: int) -> bool:
        """Signal the group (0 only looks) and say whether it has members."""
        try:
            os.killpg(self._group, number)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True
