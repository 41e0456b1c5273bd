"""The messages of an upstream on their way to the SDK, which refuses a whole result for one odd member.

What waits for a child, and how long a call may wait, is limited.
"""

from __future__ import annotations

import asyncio
import math
import re
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import Context, ContextVar
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import anyio
from anyio.abc import AsyncResource
from mcp import MCPError
from mcp.client import Transport
from mcp.client._transport import ReadStream, TransportStreams
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.message import SessionMessage
from mcp_types import INTERNAL_ERROR, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse, RequestId
from pydantic import BaseModel, Field

from callability.gateway.upstream.failure import MESSAGE_BYTES, Failure

AS_IT_CAME = "callability/as_it_came"
"""Where the SDK passes on a result as it came: among the members of what stands in for it, in `_meta` of a list."""
_COMPLETE = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
_CHECKED = frozenset({"$schema", "properties", "required", "type"})
"""The members of a schema that the SDK checks, although nothing is decided by them here."""
_SERVER_INFO = "io.modelcontextprotocol/serverInfo"

_Item = SessionMessage | Exception


class WholeResult(BaseModel):
    """A result that the SDK passes on as it came."""

    as_it_came: dict[str, Any] = Field(alias="callability/as_it_came")


@asynccontextmanager
async def filter_streams(transport: Transport) -> AsyncGenerator[TransportStreams]:
    """Enter a transport, and yield its streams without the messages over which the SDK would end the connection.

    What the SDK gets of a result is valid as far as the gateway neither shows nor decides by what is odd.
    """
    async with transport as (incoming, outgoing):
        yield _Checked(incoming), outgoing


class _Checked:
    """A stream of the SDK's own kind: it has the context of the latest message's sender."""

    def __init__(self, stream: ReadStream[_Item]) -> None:
        self._stream = stream

    @property
    def last_context(self) -> Context | None:
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> _Item:
        while _ends_connection(item := await self._stream.receive()):
            pass
        if isinstance(item, SessionMessage) and isinstance(item.message, JSONRPCResponse):
            item.message.result = _stand_in(item.message.result)
        return item

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> _Checked:
        return self

    async def __anext__(self) -> _Item:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> _Checked:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> bool | None:
        return await self._stream.__aexit__(exc_type, exc_val, exc_tb)


def _ends_connection(item: _Item) -> bool:
    """Say whether a progress is a whole number beyond any floating-point number, to which the SDK converts it."""
    message = item.message if isinstance(item, SessionMessage) else None
    params = (message.params or {}) if isinstance(message, JSONRPCNotification) else {}
    numbers = (params.get("progress"), params.get("total"))
    return any(isinstance(number, int) and abs(number) > sys.float_info.max for number in numbers)


def _stand_in(result: dict[str, Any]) -> dict[str, Any]:
    """Return what the SDK gets in place of a result, whichever request it answers."""
    handshake: dict[str, Any] = {key: result[key] for key in ("protocolVersion", "supportedVersions") if key in result}
    versions = handshake.get("supportedVersions")
    if isinstance(versions, list):
        handshake["supportedVersions"] = [version for version in versions if isinstance(version, str)]
    meta = result.get("_meta")
    kept = {key: value for key, value in meta.items() if key != _SERVER_INFO} if isinstance(meta, dict) else {}
    return {
        **_COMPLETE,
        **handshake,
        "capabilities": _capabilities(result.get("capabilities")),
        "serverInfo": {"name": "", "version": ""},
        "content": [],
        "_meta": kept,
        AS_IT_CAME: result,
        **(list_stand_in(result) if "tools" in result else {}),
    }


def _capabilities(given: object) -> dict[str, Any]:
    """Return the capability by which the gateway decides: whether changes of the tools are announced."""
    tools = given.get("tools") if isinstance(given, dict) else None
    announced = isinstance(tools, dict) and tools.get("listChanged") is True
    return {"tools": {"listChanged": announced}} if isinstance(tools, dict) else {}


def list_stand_in(result: dict[str, Any]) -> dict[str, Any]:
    """Return what stands in for a list of tools: their names, and which of their arguments go into headers."""
    tools = result["tools"]
    cursor = {"nextCursor": result["nextCursor"]} if "nextCursor" in result else {}
    if isinstance(tools, list):
        tools = [_list_tool(tool) for tool in tools if isinstance(tool, dict) and isinstance(tool.get("name"), str)]
    return {**cursor, "tools": tools, "_meta": {AS_IT_CAME: result}}


def _list_tool(tool: dict[str, Any]) -> dict[str, Any]:
    schema = tool.get("inputSchema")
    kept = {key: value for key, value in schema.items() if key not in _CHECKED} if isinstance(schema, dict) else {}
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if isinstance(properties, dict):
        kept["properties"] = {key: value for key, value in properties.items() if isinstance(value, dict)}
    return {"name": tool["name"], "inputSchema": {**kept, "type": "object"}}


PROBE = "server/discover"
"""The first request of MCP 2026-07-28; a server of an earlier revision may refuse it, ignore it, or end over it."""


@dataclass(slots=True)
class Exchange:
    """The outcome of the latest request; `lost` demands a new connection, `status` is that of the last answer.

    An answer that sends nothing for `seconds` is given up, even if a caller waits for it: in MCP 2025-11-25, a caller
    that has gone does not end its request, and endless requests would fill the pool. None: never. `so_far` returns
    the failure of an answer that is an error while its body is still being read. `refusal` is the failure of a
    handshake that was refused or deferred: the same try does not repeat it. `text` is what arrived of the last list of
    tools, or of the answer to a call: it shows what is wrong if the SDK only says that something is. In an opening,
    `server/discover` has `probe_seconds` for its answer, `unanswered` says that it got none from a server of MCP, and
    `denial` is one that stands if `initialize` gets no answer either.
    """

    seconds: float | None
    failure: Failure | None = None
    lost: bool = False
    status: int | None = None
    so_far: Callable[[], Failure | None] | None = None
    refusal: Failure | None = None
    probe_seconds: float | None = None
    unanswered: bool = False
    denial: Failure | None = None
    text: bytearray = field(default_factory=bytearray, repr=False)
    began: float = field(default_factory=time.monotonic, repr=False)

    def begin(self) -> None:
        """Forget the outcome of an earlier request, because another one is sent now."""
        self.failure = self.status = self.so_far = None
        self.text = bytearray()

    def lose(self, failure: Failure) -> None:
        """Set a failure after which the connection must not be used again."""
        self.failure, self.lost = failure, True

    @property
    def seconds_left(self) -> float | None:
        """The rest of `seconds` since this exchange began, for all its requests together."""
        return None if self.seconds is None else max(0.0, self.began + self.seconds - time.monotonic())

    @property
    def known(self) -> Failure | None:
        """The failure of which the status line has arrived, if the rest of the answer has not."""
        return None if self.so_far is None else self.so_far()


# Set by the caller; the SDK runs each request in its caller's context. An error's `data` would be easier to read
# and could be forged by the upstream.
EXCHANGE: ContextVar[Exchange | None] = ContextVar("exchange", default=None)


MOST_UNREAD = 10_000
"""Messages that may wait for a child to read them: a child that asks without end and reads no answer fills memory."""
MOST_UNREAD_BYTES = 4 * MESSAGE_BYTES
"""Bytes that may wait for a child to read them. A request that would exceed them fails at once and is not sent."""
_UNREAD = "has not yet read what it was sent before"


class OutgoingMessages(AsyncResource):
    """Takes messages from a session, which never waits for the child, and writes them to it one after the other."""

    def __init__(self) -> None:
        # Unbounded, so that a child that does not read cannot hold up a caller beyond its own deadline.
        self._put, self._waiting = anyio.create_memory_object_stream[bytes](math.inf)
        self._unread_bytes = 0
        self._probe: asyncio.Future[RequestId] = asyncio.get_running_loop().create_future()

    @property
    def are_too_many(self) -> bool:
        """Whether more messages wait than may."""
        return self._put.statistics().current_buffer_used > MOST_UNREAD

    async def probe(self) -> RequestId:
        """Return the id of the first `server/discover`, once it is sent."""
        return await self._probe

    async def send(self, item: SessionMessage) -> None:
        """Take a message.

        Raises:
            MCPError: it is a request, and too much waits already.
        """
        line = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        is_full = self._unread_bytes and self._unread_bytes + len(line) > MOST_UNREAD_BYTES
        if is_full and isinstance(item.message, JSONRPCRequest):
            if (exchange := EXCHANGE.get()) is not None:
                exchange.failure = Failure(_UNREAD, executed=False)
            raise MCPError(INTERNAL_ERROR, _UNREAD)
        if isinstance(item.message, JSONRPCRequest) and item.message.method == PROBE and not self._probe.done():
            self._probe.set_result(item.message.id)
        self._unread_bytes += len(line)
        await self._put.send(line)

    async def write_to(self, child: asyncio.StreamWriter) -> None:
        """Write the messages to a child, until no more can come.

        Raises:
            OSError: the child has closed its end.
        """
        async for line in self._waiting:
            child.write(line)
            await child.drain()
            self._unread_bytes -= len(line)

    async def aclose(self) -> None:
        """Take no more messages."""
        await self._put.aclose()

    def close(self) -> None:
        """Give up the messages that wait."""
        self._put.close()
        self._waiting.close()


_REPLACEMENT = rb"\ufffd"
_PAIR = rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_HALF = rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
# Any other escape is read whole too, so that the backslash that ends one is not taken for the start of another.
_ESCAPE = re.compile(rb"(?:%b)|(?P<half>%b)|\\[\s\S]" % (_PAIR, _HALF))
_SIGN = re.compile(rb"\\u[dD][89a-fA-F]")
_WHOLE = re.compile(rb"(?:%b)|(?:%b)" % (_PAIR, _HALF))
_EXAMPLES = (rb"\ud800\udc00", rb"\udc00")


def without_halves(text: bytes) -> bytes:
    """Return JSON with U+FFFD for each half of a surrogate pair, and for what is not UTF-8."""
    return _without(text.decode("utf-8", "replace").encode())


class PiecesWithoutHalves:
    """The same for a text that arrives in pieces, except for what is not UTF-8."""

    def __init__(self) -> None:
        self._unfinished_bytes = b""

    def certain(self, piece: bytes) -> bytes:
        """Take a piece, and return what is certain so far."""
        text = self._unfinished_bytes + piece
        started = _unfinished_bytes(text)
        self._unfinished_bytes = text[len(text) - started :]
        return _without(text[: len(text) - started])

    def rest(self) -> bytes:
        """Return what was held back, once nothing more comes."""
        return _without(self._unfinished_bytes)


def _without(text: bytes) -> bytes:
    return _ESCAPE.sub(lambda each: _REPLACEMENT if each["half"] else each[0], text) if _SIGN.search(text) else text


def _unfinished_bytes(text: bytes) -> int:
    """Return how many bytes at the end begin a pair or a half of which more may come."""
    for length in range(min(len(text), len(_EXAMPLES[0]) - 1), 0, -1):
        end = text[-length:]
        if any(_begins(end, example) for example in _EXAMPLES) and not _is_escaped(text[:-length]):
            return length
    return 0


def _is_escaped(before: bytes) -> bool:
    """Say whether what follows a text is escaped by its last backslash."""
    return (len(before) - len(before.rstrip(b"\\"))) % 2 == 1


def _begins(end: bytes, example: bytes) -> bool:
    """Say whether a text becomes what an example is by the rest of the example."""
    return len(end) < len(example) and _WHOLE.fullmatch(end + example[len(end) :]) is not None


class CallDeadline:
    """Ends a call `seconds` after its start or its latest progress, and `most` seconds after its start."""

    def __init__(self, seconds: float, most: float) -> None:
        self.seconds = seconds
        self._most = max(seconds, most)
        self._timeout: asyncio.Timeout | None = None
        self._last = 0.0
        self._is_extended = False

    @asynccontextmanager
    async def keep(self) -> AsyncIterator[None]:
        """Run the call.

        Raises:
            TimeoutError: its time is over.
        """
        now = asyncio.get_running_loop().time()
        self._last = now + self._most
        try:
            async with asyncio.timeout_at(now + self.seconds) as self._timeout:
                yield
        finally:
            self._timeout = None

    def extended_by(self, report: ProgressFnT | None) -> ProgressFnT | None:
        """Return what takes the progress of the call and passes it on; None if the agent wants none."""
        if report is None:
            return None

        async def extend(progress: float, total: float | None, message: str | None) -> None:
            self._extend()
            await report(progress, total, message)

        return extend

    @property
    def words(self) -> str:
        """Words for the end of the time."""
        if not self._is_extended:
            return f"did not answer within {self.seconds:g} s"
        if asyncio.get_running_loop().time() >= self._last:
            return f"did not answer within {self._most:g} s, although it reported progress"
        return f"did not answer within {self.seconds:g} s of its latest progress"

    def _extend(self) -> None:
        if self._timeout is not None and not self._timeout.expired():
            self._is_extended = True
            self._timeout.reschedule(min(asyncio.get_running_loop().time() + self.seconds, self._last))
