"""The messages that wait for a child to read them."""

from __future__ import annotations

import asyncio
import math
from types import TracebackType

import anyio
from mcp import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import INTERNAL_ERROR, JSONRPCRequest, RequestId

from callability.gateway.upstream.exchange import EXCHANGE, PROBE
from callability.gateway.upstream.failure import MESSAGE_BYTES, Failure

MOST_UNREAD = 10_000
"""Messages that may wait for a child to read them: a child that asks without end and reads no answer fills memory."""
MOST_UNREAD_BYTES = 4 * MESSAGE_BYTES
"""Bytes that may wait for a child to read them. A request that would exceed them fails at once and is not sent."""
_UNREAD = "has not yet read what it was sent before"


class OutgoingMessages:
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

    async def __aenter__(self) -> OutgoingMessages:
        """Return it; the session closes it."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take no more messages."""
        await self.aclose()
