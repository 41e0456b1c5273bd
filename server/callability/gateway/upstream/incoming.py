"""Filters the messages of an upstream on their way to the SDK."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from contextvars import Context
from types import TracebackType
from typing import Any

import anyio
from mcp.client import Transport
from mcp.client._transport import ReadStream, TransportStreams
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification, JSONRPCResponse

_Item = SessionMessage | Exception


class IncomingMessages:
    """Passes on all messages but those over which the SDK would end the connection; `latest` is the latest result."""

    def __init__(self) -> None:
        self.latest: dict[str, Any] = {}

    @asynccontextmanager
    async def through(self, transport: Transport) -> AsyncGenerator[TransportStreams]:
        """Enter a transport, and yield its streams, filtered on the way to the SDK."""
        async with transport as (incoming, outgoing):
            yield _Checked(incoming, self), outgoing

    def takes(self, item: _Item) -> bool:
        """Say whether an item is passed on, and remember what it brings."""
        message = item.message if isinstance(item, SessionMessage) else None
        if isinstance(message, JSONRPCResponse):
            self.latest = message.result
        return not (isinstance(message, JSONRPCNotification) and _is_beyond_numbers(message.params or {}))


class _Checked:
    """A stream of the SDK's own kind: it has the context of the latest message's sender."""

    def __init__(self, stream: ReadStream[_Item], incoming: IncomingMessages) -> None:
        self._stream = stream
        self._incoming = incoming

    @property
    def last_context(self) -> Context | None:
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> _Item:
        while not self._incoming.takes(item := await self._stream.receive()):
            pass
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


def _is_beyond_numbers(params: dict[str, Any]) -> bool:
    """Say whether a progress is a whole number beyond any floating-point number, to which the SDK converts it."""
    numbers = (params.get("progress"), params.get("total"))
    return any(isinstance(number, int) and abs(number) > sys.float_info.max for number in numbers)
