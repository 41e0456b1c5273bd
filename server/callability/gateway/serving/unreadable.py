"""Answers messages over stdio that cannot be read: the library drops them, and their sender would wait in vain."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Protocol

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError, JSONRPCNotification, RequestId
from pydantic import ValidationError

from callability.gateway.serving.line_limit import Written

_MESSAGE = "Not read: the line is not a JSON-RPC request of MCP"
_logger = logging.getLogger(__name__)


class Incoming(Protocol):
    """The library's stream of messages from the client, with an exception in place of each that it cannot read."""

    def __aiter__(self) -> Any:
        """Iterate over the messages."""

    async def aclose(self) -> None:
        """Read no more."""


@asynccontextmanager
async def readable(
    read: Incoming, write: Written
) -> AsyncIterator[MemoryObjectReceiveStream[SessionMessage | Exception]]:
    """Yield a stream of the messages that can be read; the others are answered with an error."""
    passing, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    async with anyio.create_task_group() as group:
        group.start_soon(_hand_on, read, passing, write)
        async with incoming:
            yield incoming
        group.cancel_scope.cancel()


async def _hand_on(
    read: Incoming,
    passing: MemoryObjectSendStream[SessionMessage | Exception],
    write: Written,
) -> None:
    async with passing:
        async for item in read:
            if isinstance(item, ValidationError):
                answer = _answer_to(item)
            elif isinstance(item, SessionMessage) and _is_request_without_id(item):
                answer = _error(None, INVALID_REQUEST, "`id`: Input should be a string or an integer")
            else:
                await passing.send(item)
                continue
            if answer is not None:
                await write.send(SessionMessage(answer))


def _is_request_without_id(item: SessionMessage) -> bool:
    """Say whether a message is a request whose id cannot be read; the library takes it for a notification."""
    message = item.message
    return isinstance(message, JSONRPCNotification) and not message.method.startswith("notifications/")


def _answer_to(error: ValidationError) -> JSONRPCError | None:
    """Return the answer to a line that is not a message; None if it needs none, as an empty line.

    A response that cannot be read gets none either: its id is one of ours, and the client may have the same in use.
    """
    faults = error.errors(include_url=False, include_context=False)
    if faults[0]["type"] == "json_invalid":
        line = faults[0]["input"]
        return _error(None, PARSE_ERROR, faults[0]["msg"]) if line.strip() else None
    message: dict[str, Any] = next((each["input"] for each in faults if isinstance(each["input"], dict)), {})
    if "method" not in message and ("result" in message or "error" in message):
        _logger.warning("a response of the client cannot be read")
        return None
    # Each form that a message may have was tried; the first is a request.
    *_, place = faults[0]["loc"]
    where = f"`{place}`: " if len(faults[0]["loc"]) > 1 else ""
    return _error(_id_of(message), INVALID_REQUEST, f"{where}{faults[0]['msg']}")


def _error(request: RequestId | None, code: int, why: str) -> JSONRPCError:
    _logger.warning("a message of the client cannot be read: %s", why)
    return JSONRPCError(jsonrpc="2.0", id=request, error=ErrorData(code=code, message=f"{_MESSAGE}. {why}"))


def _id_of(message: dict[str, Any]) -> RequestId | None:
    found = message.get("id")
    return found if isinstance(found, str | int) and not isinstance(found, bool) else None
