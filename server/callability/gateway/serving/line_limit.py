"""Limits the length of a line over stdio: a client that buffers lines ends the session at one that does not fit."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any, Protocol

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import INTERNAL_ERROR, ErrorData, JSONRPCError, JSONRPCMessage, JSONRPCResponse

MAX_LINE_BYTES = 10 * 1024 * 1024 - 64 * 1024
"""The TypeScript SDK reads at most 10 MiB at once; its last read, up to 64 KiB, may hold the start of another line."""
_KEPT = ("resultType",)
_RESERVED = "io.modelcontextprotocol/"
_logger = logging.getLogger(__name__)


class Written(Protocol):
    """The library's stream of messages to the client."""

    async def send(self, item: SessionMessage, /) -> None:
        """Write a message."""

    async def aclose(self) -> None:
        """Write no more."""


@asynccontextmanager
async def limited(write: Written) -> AsyncIterator[MemoryObjectSendStream[SessionMessage]]:
    """Yield a stream that passes messages on, with an error in place of an answer whose line would be too long."""
    outgoing, waiting = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as group:
        group.start_soon(_hand_on, waiting, write)
        async with outgoing:
            yield outgoing


async def _hand_on(waiting: MemoryObjectReceiveStream[SessionMessage], write: Written) -> None:
    async with waiting, aclosing(write):
        async for item in waiting:
            message = fitting(item.message)
            if message is not None:
                await write.send(SessionMessage(message, metadata=item.metadata))


def fitting(message: JSONRPCMessage) -> JSONRPCMessage | None:
    """Return a message, or what replaces it if its line would be too long; None if nothing does."""
    # As the library writes it, with the end of the line.
    size = len(message.model_dump_json(by_alias=True, exclude_unset=True).encode()) + 1
    if size <= MAX_LINE_BYTES:
        return message
    _logger.warning("a message of %s bytes is not sent: over stdio, a line has at most %s", f"{size:,}", _limit())
    if isinstance(message, JSONRPCResponse):
        return JSONRPCResponse(jsonrpc="2.0", id=message.id, result=_refusal(message.result, size))
    if isinstance(message, JSONRPCError):
        error = ErrorData(code=message.error.code if message.error else INTERNAL_ERROR, message=_words(size))
        return JSONRPCError(jsonrpc="2.0", id=message.id, error=error)
    return None


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
