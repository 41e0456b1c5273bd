"""The older HTTP transport of MCP (HTTP+SSE): messages arrive in one stream of events, and leave one by one by POST."""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, suppress
from contextvars import Context, copy_context
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any

import anyio
import httpx2
from anyio.abc import AsyncResource, TaskGroup
from anyio.lowlevel import checkpoint
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared._httpx_utils import stream_within_origin
from mcp.shared.message import SessionMessage
from mcp_types import (
    INTERNAL_ERROR,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCRequest,
    RequestId,
    jsonrpc_message_adapter,
)
from pydantic_core import from_json

from callability.contract.vocabulary import LoadFailure, LoadPhase
from callability.gateway.upstream.failure import (
    MESSAGE_BYTES,
    NOT_MCP,
    TOO_LONG,
    Failure,
    UnreadAnswer,
    transport_failure,
)
from callability.gateway.upstream.http_client import NOTIFICATION_SECONDS, HttpClient
from callability.gateway.upstream.http_response import ERROR_BODY_SECONDS, SESSION_LOST, Handshake, TooLong
from callability.gateway.upstream.messages import EXCHANGE, MOST_UNREAD, Exchange, without_halves
from callability.gateway.upstream.process_group import END_BYTES, LongLine
from callability.gateway.upstream.target import HttpTarget
from callability.process.logs import fields

MOST_EVENT_BYTES = 2 * MESSAGE_BYTES
"""An event that is longer, and has not ended, ends the connection: nothing else can arrive behind it."""
_EVENTS = "text/event-stream"
_OPENING_HEADERS = {"Accept": _EVENTS, "Cache-Control": "no-store"}
_MESSAGE_HEADERS = {"Content-Type": "application/json"}
_LOST = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND})
_BEFORE_AN_ANSWER = " before it answered"
_ENDED = Failure("closed the connection", kind=LoadFailure.CLOSED, phase=LoadPhase.RESPONSE)
_NO_ENDPOINT = Failure(
    "answered with a stream of events that names no endpoint", kind=LoadFailure.NOT_MCP, phase=LoadPhase.RESPONSE
)
_ELSEWHERE = Failure(
    "names an endpoint for messages on another host, to which nothing is sent",
    kind=LoadFailure.NOT_MCP,
    phase=LoadPhase.RESPONSE,
)
_NO_EVENTS = Failure(NOT_MCP, kind=LoadFailure.NOT_MCP, phase=LoadPhase.RESPONSE)
_FLOODED = Failure("sends more requests than can be answered", phase=LoadPhase.RESPONSE)
_logger = logging.getLogger("callability.gateway.upstream")

_Arrived = MemoryObjectSendStream[SessionMessage | Exception]


class StreamFault(Exception):
    """The stream could not be opened; the exchange of the opening has the reason."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a stream; of data that is too long only both ends are kept."""

    name: str
    data: bytes | LongLine


class Events:
    """The events of a stream, read in bounded memory.

    Raises:
        TooLong: an event has more than `MOST_EVENT_BYTES`.
    """

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces = pieces
        self._line = _Ends()
        self._data = _Ends()
        self._has_data = False
        self._name = b""
        self._size = 0
        self._after_return = False

    async def __aiter__(self) -> AsyncGenerator[Event]:
        async for piece in self._pieces:
            for event in self._read(piece):
                yield event
            if self._size > MOST_EVENT_BYTES:
                raise TooLong

    def _read(self, piece: bytes) -> Iterator[Event]:
        if self._after_return and piece.startswith(b"\n"):
            piece = piece[1:]
        if piece:
            self._after_return = piece.endswith(b"\r")
        *ends, rest = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        for end in ends:
            self._extend(end)
            line, self._line = self._line, _Ends()
            if line:
                self._take(line)
                continue
            if self._has_data:
                yield Event(self._name.decode("utf-8", "replace") or "message", self._data.whole())
            self._data, self._has_data, self._name, self._size = _Ends(), False, b"", 0
        self._extend(rest)

    def _extend(self, part: bytes) -> None:
        self._line.add(part)
        self._size += len(part)

    def _take(self, line: _Ends) -> None:
        """Take a whole line; what is neither data nor the name of an event is no part of a message."""
        name = line.begins
        if name.startswith(b"data:"):
            self._data.add(b"\n" if self._has_data else b"")
            self._data.append(line, skipped=len(b"data: ") if name.startswith(b"data: ") else len(b"data:"))
            self._has_data = True
        elif name.startswith(b"event:"):
            self._name = name.removeprefix(b"event:").removeprefix(b" ")


class _Ends:
    """Bytes, of which only both ends are kept if there are more than `MESSAGE_BYTES`."""

    def __init__(self) -> None:
        self._head = b""
        self._bytes = bytearray()

    def __bool__(self) -> bool:
        return bool(self._bytes)

    @property
    def begins(self) -> bytes:
        """The first bytes."""
        return self._head or bytes(self._bytes[:END_BYTES])

    def add(self, part: bytes) -> None:
        self._bytes += part
        if not self._head and len(self._bytes) > MESSAGE_BYTES:
            self._head = bytes(self._bytes[:END_BYTES])
        if self._head:
            del self._bytes[:-END_BYTES]

    def append(self, other: _Ends, *, skipped: int) -> None:
        """Add what another has, without its first bytes."""
        if not other._head:
            self.add(bytes(other._bytes[skipped:]))
            return
        self._head = self._head or (bytes(self._bytes) + other._head[skipped:])[:END_BYTES]
        self._bytes = other._bytes

    def whole(self) -> bytes | LongLine:
        return LongLine(self._head, bytes(self._bytes)) if self._head else bytes(self._bytes)


class EventClient(HttpClient):
    """Sends the requests of the older transport: nothing stands in for an answer, and the exchange says why."""

    async def send(self, request: httpx2.Request, *args: Any, **options: Any) -> httpx2.Response:
        """Send, note the outcome in the caller's exchange, and return the answer.

        Raises:
            StreamFault: there is none.
        """
        exchange = EXCHANGE.get()
        assert exchange is not None
        exchange.begin()
        request.extensions = {**request.extensions, "trace": Handshake().note_event}
        if request.method == "POST":
            limits = {**request.extensions.get("timeout", {}), "read": exchange.seconds}
            request.extensions = {**request.extensions, "timeout": limits}
        answer = await self._answer(request, None, exchange, *args, **options)
        if answer is None:
            raise StreamFault
        return answer


class EventTransport:
    """A stream of events while `streams` is entered; `on_end` is called with how it ended, if it did so by itself."""

    def __init__(self, name: str, target: HttpTarget, on_end: Callable[[Failure], None]) -> None:
        self.heard = 0
        """How many messages arrived."""
        self._name = name
        self._target = target
        self._on_end = on_end
        self._is_garbled = False

    @asynccontextmanager
    async def streams(self) -> AsyncGenerator[tuple[MemoryObjectReceiveStream[SessionMessage | Exception], _Messages]]:
        """Open the stream, and yield the messages that arrive in it, and those that are sent.

        Raises:
            StreamFault: it cannot be opened; the exchange of the opening has the reason.
        """
        async with (
            EventClient(self._name, self._target) as client,
            self._open_stream(client) as (endpoint, events),
            anyio.create_task_group() as group,
        ):
            arrived, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
            messages = _Messages(_Posts(client, endpoint, arrived, self._on_end), group)
            with arrived, incoming, closing(messages):
                group.start_soon(self._receive, events, arrived)
                group.start_soon(messages.deliver)
                yield incoming, messages
                group.cancel_scope.cancel()

    @asynccontextmanager
    async def _open_stream(self, client: EventClient) -> AsyncGenerator[tuple[httpx2.URL, AsyncIterator[Event]]]:
        """Open the stream, and yield the endpoint that it names and the events that follow."""
        opening = EXCHANGE.get()
        assert opening is not None
        async with stream_within_origin(client, "GET", self._target.url, headers=_OPENING_HEADERS) as response:
            if not response.is_success:
                # A JSON-RPC error is no answer to a request that is none.
                words = f"answered with HTTP status {response.status_code}"
                kind, phase = LoadFailure.HTTP_STATUS, LoadPhase.RESPONSE
                failure = Failure(words, status=response.status_code, kind=kind, phase=phase)
                opening.failure = opening.failure or failure
                raise StreamFault
            if not response.headers.get("content-type", "").lower().startswith(_EVENTS):
                opening.failure = opening.failure or _NO_EVENTS
                raise StreamFault
            events = aiter(Events(response.aiter_bytes()))
            yield await _endpoint(events, response.request.url, opening), events

    async def _receive(self, events: AsyncIterator[Event], arrived: _Arrived) -> None:
        """Pass messages on until the stream ends, and report how it ended before the session sees it."""
        try:
            async for event in events:
                message = self._message(event.data) if event.name == "message" and event.data else None
                if message is None:
                    await checkpoint()
                else:
                    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                        await arrived.send(SessionMessage(message))
            failure = _ENDED
        except TooLong:
            failure = TOO_LONG
        except httpx2.RequestError as error:
            lost = transport_failure(error)
            failure = replace(lost, words=lost.words.removesuffix(_BEFORE_AN_ANSWER))
        if not self.heard:
            failure = replace(failure, words=f"{failure.words.removesuffix(_BEFORE_AN_ANSWER)}{_BEFORE_AN_ANSWER}")
        self._on_end(failure)
        arrived.close()

    def _message(self, data: bytes | LongLine) -> JSONRPCMessage | None:
        """Return the message of an event; an answer that is none, or is too long, becomes the error of its request."""
        if isinstance(data, LongLine):
            self.heard += 1
            _logger.warning("`%s` %s", self._name, TOO_LONG.words, extra=fields(server=self._name))
            return _error(data.answered_id(), ErrorData(code=INTERNAL_ERROR, message=TOO_LONG.words, data=TOO_LONG))
        try:
            message = jsonrpc_message_adapter.validate_python(from_json(without_halves(data)), by_name=False)
        except ValueError:
            if not self._is_garbled:
                words = "`%s` sent an event that is not MCP; further ones are not reported"
                _logger.info(words, self._name, extra=fields(server=self._name))
            self._is_garbled = True
            answered = LongLine(data[:END_BYTES], data[-END_BYTES:]).answered_id()
            return _error(answered, ErrorData(code=PARSE_ERROR, message=NOT_MCP, data=UnreadAnswer(data)))
        self.heard += 1
        return message


class _Posts:
    """Sends single messages to the endpoint; a request that is not accepted gets an error in place of its answer."""

    def __init__(
        self, client: EventClient, endpoint: httpx2.URL, arrived: _Arrived, on_end: Callable[[Failure], None]
    ) -> None:
        self._client = client
        self._endpoint = endpoint
        self._arrived = arrived
        self.end = on_end

    async def send(self, message: JSONRPCMessage) -> None:
        """Send a message, and wait until it is accepted."""
        request = message if isinstance(message, JSONRPCRequest) else None
        caller = EXCHANGE.get() if request is not None else None
        # The answer in the stream may come before that to the POST, and must not meet what the latter means.
        posting = Exchange(NOTIFICATION_SECONDS if caller is None else caller.seconds)
        EXCHANGE.set(posting)
        if caller is not None:
            caller.begin()
            caller.so_far = lambda: posting.known
        body = message.model_dump_json(by_alias=True, exclude_unset=True).encode()
        refusal: bytes = b""
        try:
            options = {"content": body, "headers": _MESSAGE_HEADERS}
            async with stream_within_origin(self._client, "POST", self._endpoint, **options) as response:
                # What it means is said in the stream.
                with anyio.move_on_after(ERROR_BODY_SECONDS), suppress(httpx2.RequestError):
                    refusal = await _start_of(response)
            if response.is_success:
                return
        except StreamFault:
            pass
        if request is not None:
            await self._refuse(request, posting, caller or posting, refusal)

    async def _refuse(self, request: JSONRPCRequest, posting: Exchange, caller: Exchange, refusal: bytes) -> None:
        """Say in the caller's exchange why a request was not accepted, and answer it in place of the server."""
        caller.failure, caller.lost, caller.status = posting.failure, posting.lost, posting.status
        if request.method != "initialize" and posting.status in _LOST:
            failure = posting.failure or Failure(SESSION_LOST)
            caller.lose(replace(failure, words=SESSION_LOST, in_session=True))
        error = ErrorData(code=INTERNAL_ERROR, message="the exchange failed")
        if caller.failure is None:
            # The body is the server's own answer in JSON-RPC.
            with suppress(ValueError):
                answer = jsonrpc_message_adapter.validate_python(from_json(without_halves(refusal)), by_name=False)
                error = answer.error if isinstance(answer, JSONRPCError) else error
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self._arrived.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=request.id, error=error)))


class _Messages(AsyncResource):
    """Takes messages from a session, which never waits for the server, and sends each in its sender's context.

    A notification, and an answer, is delivered before what follows it is sent; requests do not wait for one another.
    """

    def __init__(self, posts: _Posts, group: TaskGroup) -> None:
        self._posts = posts
        self._group = group
        self._put, self._waiting = anyio.create_memory_object_stream[tuple[JSONRPCMessage, Context]](math.inf)

    async def send(self, item: SessionMessage) -> None:
        """Take a message."""
        await self._put.send((item.message, copy_context()))
        if self._put.statistics().current_buffer_used > MOST_UNREAD:
            self._posts.end(_FLOODED)

    async def deliver(self) -> None:
        """Send what was taken, until no more can come."""
        async for message, context in self._waiting:
            if isinstance(message, JSONRPCRequest):
                context.run(self._group.start_soon, self._posts.send, message)
            else:
                await self._posts.send(message)

    def close(self) -> None:
        """Give up the messages that wait."""
        self._put.close()
        self._waiting.close()

    async def aclose(self) -> None:
        """Take no more messages."""
        await self._put.aclose()


async def _endpoint(events: AsyncIterator[Event], opened: httpx2.URL, opening: Exchange) -> httpx2.URL:
    """Return the endpoint that a stream names first; it has the origin of the stream."""
    named = await anext((event.data async for event in events if event.name == "endpoint"), None)
    if not isinstance(named, bytes):
        opening.failure = opening.failure or _NO_ENDPOINT
        raise StreamFault
    with suppress(httpx2.InvalidURL):
        endpoint = opened.join(named.decode("utf-8", "replace").strip())
        if _origin(endpoint) == _origin(opened):
            return endpoint
    opening.failure = _ELSEWHERE
    raise StreamFault


def _origin(url: httpx2.URL) -> tuple[str, str, int | None, bytes]:
    return url.scheme, url.host, url.port, url.userinfo


async def _start_of(response: httpx2.Response) -> bytes:
    """Return the body of an answer to a POST, as far as it is short."""
    body = bytearray()
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) > MESSAGE_BYTES:
            break
    return bytes(body)


def _error(request: RequestId | None, error: ErrorData) -> JSONRPCError | None:
    return None if request is None else JSONRPCError(jsonrpc="2.0", id=request, error=error)
