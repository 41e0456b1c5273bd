"""The lines of an agent over a stream: one that is no request is answered, and one that is too long is refused."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Protocol

import anyio
import mcp_types
from anyio.abc import AsyncResource
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

MAX_LINE_BYTES = 10 * 1024 * 1024 - 64 * 1024
"""The TypeScript SDK reads at most 10 MiB at once; its last read, up to 64 KiB, may hold the start of another line."""
UNREAD_BYTES = 64 * 1024 * 1024
"""Bytes that may wait for an agent to read them; clients without a token are one agent."""
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


class Outgoing(AsyncResource):
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


@asynccontextmanager
async def limit_unread(write: Written, end: Callable[[str], None]) -> AsyncIterator[Outgoing]:
    """Yield a stream that passes messages on, and calls `end` once the agent does not read them."""
    async with anyio.create_task_group() as group:
        outgoing = Outgoing(write, end)
        group.start_soon(outgoing.watch)
        async with outgoing:
            yield outgoing
        group.cancel_scope.cancel()


def fitting(message: mcp_types.JSONRPCMessage) -> tuple[mcp_types.JSONRPCMessage | None, int]:
    """Return a message, or what replaces it if its line would be too long, with its bytes; None if nothing does."""
    # As the library writes it, with the end of the line.
    size = len(message.model_dump_json(by_alias=True, exclude_unset=True).encode()) + 1
    if size <= MAX_LINE_BYTES:
        return message, size
    _logger.warning("a message of %s bytes is not sent: over stdio, a line has at most %s", f"{size:,}", _limit())
    if isinstance(message, mcp_types.JSONRPCResponse):
        return mcp_types.JSONRPCResponse(jsonrpc="2.0", id=message.id, result=_refusal(message.result, size)), 0
    if isinstance(message, mcp_types.JSONRPCError):
        error = mcp_types.ErrorData(
            code=message.error.code if message.error else mcp_types.INTERNAL_ERROR, message=_words(size)
        )
        return mcp_types.JSONRPCError(jsonrpc="2.0", id=message.id, error=error), 0
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


_MESSAGE = "Not read: the {} is not a JSON-RPC request of MCP"


class Incoming(Protocol):
    """The library's stream of messages from the client, with an exception in place of each that it cannot read."""

    def __aiter__(self) -> Any:
        """Iterate over the messages."""

    async def aclose(self) -> None:
        """Read no more."""


@asynccontextmanager
async def readable(
    read: Incoming, write: Written, further: Callable[[], None]
) -> AsyncIterator[MemoryObjectReceiveStream[SessionMessage | Exception]]:
    """Yield a stream of the messages that can be read; the others are answered with an error.

    `further` is called with each message after the first: its sender has read an answer.
    """
    passing, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    async with anyio.create_task_group() as group:
        group.start_soon(_hand_on, read, passing, write, further)
        async with incoming:
            yield incoming
        group.cancel_scope.cancel()


async def _hand_on(
    read: Incoming,
    passing: MemoryObjectSendStream[SessionMessage | Exception],
    write: Written,
    further: Callable[[], None],
) -> None:
    is_first = True
    async with passing:
        async for item in read:
            if not is_first:
                further()
            is_first = False
            if isinstance(item, ValidationError):
                answer = _answer_to(item)
            elif isinstance(item, SessionMessage) and _is_request_without_id(item):
                answer = _error(None, mcp_types.INVALID_REQUEST, "`id`: Input should be a string or an integer")
            else:
                await passing.send(item)
                continue
            if answer is not None:
                await write.send(SessionMessage(answer))


def _is_request_without_id(item: SessionMessage) -> bool:
    """Say whether a message is a request whose id cannot be read; the library takes it for a notification."""
    message = item.message
    return isinstance(message, mcp_types.JSONRPCNotification) and not message.method.startswith("notifications/")


def _answer_to(error: ValidationError) -> mcp_types.JSONRPCError | None:
    """Return the answer to a line that is not a message; None if it needs none, as an empty line.

    A response that cannot be read gets none either: its id is one of ours, and the client may have the same in use.
    """
    faults = error.errors(include_url=False, include_context=False)
    code, why = _fault_of(error)
    if code == mcp_types.PARSE_ERROR:
        line = faults[0]["input"]
        return _error(_id_in(line), code, why) if line.strip() else None
    message: dict[str, Any] = next((each["input"] for each in faults if isinstance(each["input"], dict)), {})
    if "method" not in message and ("result" in message or "error" in message):
        _logger.warning("a response of the client cannot be read")
        return None
    return _error(_id_of(message), code, why)


def unreadable(body: bytes, message: object) -> tuple[int, str] | None:
    """Return the code and the text of the error for a body that is no message; None if it is one.

    `message` is what a tolerant reader found in the body.
    """
    try:
        mcp_types.jsonrpc_message_adapter.validate_python(message, by_name=False)
    except ValidationError:
        try:
            mcp_types.jsonrpc_message_adapter.validate_json(body, by_name=False)
        except ValidationError as error:
            code, why = _fault_of(error)
            return code, f"{_MESSAGE.format('body')}. {why}"
    return None


def _fault_of(error: ValidationError) -> tuple[int, str]:
    """Return the code of the error for what is not a message, and what is wrong with it."""
    [fault, *_] = error.errors(include_url=False, include_context=False)
    if fault["type"] == "json_invalid":
        return mcp_types.PARSE_ERROR, fault["msg"]
    # Each form that a message may have was tried; the first is a request.
    *_, place = fault["loc"]
    where = f"`{place}`: " if len(fault["loc"]) > 1 else ""
    return mcp_types.INVALID_REQUEST, f"{where}{fault['msg']}"


def _error(request: mcp_types.RequestId | None, code: int, why: str) -> mcp_types.JSONRPCError:
    _logger.warning("a message of the client cannot be read: %s", why)
    text = f"{_MESSAGE.format('line')}. {why}"
    return mcp_types.JSONRPCError(jsonrpc="2.0", id=request, error=mcp_types.ErrorData(code=code, message=text))


def _id_in(line: str) -> mcp_types.RequestId | None:
    """Return the id of a request that only a more tolerant reader can read: with half a surrogate pair, or deep."""
    with suppress(ValueError, RecursionError):
        message = json.loads(line)
        if isinstance(message, dict) and "method" in message:
            found = _id_of(message)
            # An id with half a pair could not be written.
            return found if isinstance(found, int) or str(found).isprintable() else None
    return None


def _id_of(message: dict[str, Any]) -> mcp_types.RequestId | None:
    found = message.get("id")
    return found if isinstance(found, str | int) and not isinstance(found, bool) else None
