"""Reads what a child writes, line by line and in bounded memory: of a line that is too long only both ends are kept."""

from __future__ import annotations

import asyncio
import json
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

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

    def answered(self) -> int | str | None:
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
