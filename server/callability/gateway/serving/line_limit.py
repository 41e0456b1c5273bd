"""Limits what an agent over stdio is sent: the length of a line, and what waits for an agent that does not read."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Protocol

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import INTERNAL_ERROR, ErrorData, JSONRPCError, JSONRPCMessage, JSONRPCResponse

MAX_LINE_BYTES = 10 * 1024 * 1024 - 64 * 1024
"""The TypeScript SDK reads at most 10 MiB at once; its last read, up to 64 KiB, may hold the start of another line."""
UNREAD_BYTES = 64 * 1024 * 1024
"""Bytes of messages that may wait for the agent to read them."""
UNREAD_SECONDS = 30
"""How long the agent may read nothing of what waits for it."""
_KEPT = ("resultType",)
_RESERVED = "io.modelcontextprotocol/"
_logger = logging.getLogger(__name__)


class Written(Protocol):
    """The library's stream of messages to the client."""

    async def send(self, item: SessionMessage, /) -> None:
        """Write a message."""

    async def aclose(self) -> None:
        """Write no more."""


class Outgoing:
    """Passes messages on, with an error in place of an answer whose line would be too long.

    `end` is called with the reason if too much waits to be read: each answer would stay in memory.
    """

    def __init__(self, write: Written, end: Callable[[str], None]) -> None:
        self._write = write
        self._end = end
        self._waiting = 0
        self._seconds = 0

    async def send(self, item: SessionMessage) -> None:
        """Pass a message on, and return once it is being written."""
        message, size = fitting(item.message)
        if message is None:
            return
        if self._waiting and self._waiting + size > UNREAD_BYTES:
            self._end(f"the agent does not read its answers: over {UNREAD_BYTES // 1024**2} MiB would wait")
        self._waiting += size
        try:
            await self._write.send(SessionMessage(message, metadata=item.metadata))
            self._seconds = 0
        finally:
            self._waiting -= size

    async def watch(self) -> None:
        """End the session of an agent that reads nothing for too long."""
        while True:
            await anyio.sleep(1)
            # Seconds are counted by looks, so that a pause of this process is not held against the agent.
            self._seconds = self._seconds + 1 if self._waiting else 0
            if self._seconds > UNREAD_SECONDS:
                self._end(f"the agent does not read its answers: nothing was read for {UNREAD_SECONDS} s")

    async def aclose(self) -> None:
        """Write no more."""
        await self._write.aclose()

    async def __aenter__(self) -> Outgoing:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


@asynccontextmanager
async def limited(write: Written, end: Callable[[str], None]) -> AsyncIterator[Outgoing]:
    """Yield a stream that passes messages on, and calls `end` once the agent does not read them."""
    async with anyio.create_task_group() as group:
        outgoing = Outgoing(write, end)
        group.start_soon(outgoing.watch)
        async with outgoing:
            yield outgoing
        group.cancel_scope.cancel()


def fitting(message: JSONRPCMessage) -> tuple[JSONRPCMessage | None, int]:
    """Return a message, or what replaces it if its line would be too long, with its bytes; None if nothing does."""
    # As the library writes it, with the end of the line.
    size = len(message.model_dump_json(by_alias=True, exclude_unset=True).encode()) + 1
    if size <= MAX_LINE_BYTES:
        return message, size
    _logger.warning("a message of %s bytes is not sent: over stdio, a line has at most %s", f"{size:,}", _limit())
    if isinstance(message, JSONRPCResponse):
        return JSONRPCResponse(jsonrpc="2.0", id=message.id, result=_refusal(message.result, size)), 0
    if isinstance(message, JSONRPCError):
        error = ErrorData(code=message.error.code if message.error else INTERNAL_ERROR, message=_words(size))
        return JSONRPCError(jsonrpc="2.0", id=message.id, error=error), 0
    return None, 0


def _refusal(result: dict[str, Any], size: int) -> dict[str, Any]:
    """Return the result of a tool that says so, with what the protocol itself adds."""
    kept = {key: result[key] for key in _KEPT if key in result}
    reserved = {key: value for key, value in (result.get("_meta") or {}).items() if key.startswith(_RESERVED)}
    meta = {"_meta": reserved} if reserved else {}
    return {"content": [{"type": "text", "text": _words(size)}], "isError": True, **kept, **meta}


def _words(size: int) -> str:
    return (
        f"Not sent: the answer takes {size:,} bytes as a line of JSON, and a line over stdio has at most {_limit()}."
        " A tool that was called may have done its work. Ask for less at a time: for a part of the data, or with a"
        " smaller `limit`."
    )


def _limit() -> str:
    return f"{MAX_LINE_BYTES:,}"
