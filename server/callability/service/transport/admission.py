"""Which calls are admitted: a limited number at a time, and none once the server is stopping."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import grpc

from callability.address import DIRECT
from callability.service.requests.errors import ShuttingDown
from callability.service.transport.edge import refusing
from callability.service.transport.places import Places

if TYPE_CHECKING:
    from callability.service.transport.edge import Handler


class Admission(grpc.GenericRpcHandler):
    """Finds the handler of each call, in the order in which calls arrive, or refuses the call.

    A method in `always` is answered whatever the load, and also while the server stops. `streams` is how many streams
    without an end there may be.
    """

    def __init__(self, handlers: Mapping[str, Handler], places: Places, streams: int, always: Collection[str]) -> None:
        self._handlers = handlers
        self._places = places
        self._streams_at_most = streams
        self._always = frozenset(always)
        self._calls: set[asyncio.Task[Any]] = set()
        self._streams: set[asyncio.Task[Any]] = set()
        self._crowded = refusing(places.error)
        self._stopping = refusing(ShuttingDown())
        self._closed = False
        self._barrier = f"/{secrets.token_hex(16)}/Barrier"

    def service(self, details: grpc.HandlerCallDetails) -> Handler | None:
        """Return the handler of a call; None if there is no such method. This runs in the task of the call."""
        method = details.method
        handler = self._handlers.get(method)
        if handler is None:
            self._closed = self._closed or method == self._barrier
            return None
        if self._closed and method not in self._always:
            return self._stopping
        # Streams without an end, such as those that watch health, take no place of a call that is answered.
        if handler.response_streaming:
            calls, crowded = self._streams, len(self._streams) >= self._streams_at_most
        else:
            # It takes its place when its request has arrived, if there is still one.
            calls, crowded = self._calls, self._places.taken
        if crowded and method not in self._always:
            return self._crowded
        task = asyncio.current_task()
        assert task is not None
        calls.add(task)
        task.add_done_callback(calls.discard)
        return handler

    async def close(self, address: str, seconds: float) -> None:
        """Refuse new calls, and wait until those that arrived before have ended; end what is left after `seconds`.

        gRPC's own shutdown cancels the calls that it has read and not yet handed over. So a call of our own goes
        first: the calls that arrive before it are answered, and those behind it are refused.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._pass_barrier(address)
                if self._calls:
                    await asyncio.wait(self._calls)
        self._closed = True
        left = [task for task in self._calls if not task.done()]
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=1)

    async def _pass_barrier(self, address: str) -> None:
        """Call this server. Whatever the outcome, new calls are refused from then on."""
        options = (DIRECT, ("grpc.use_local_subchannel_pool", 1))
        async with grpc.aio.insecure_channel(address, options=options) as channel:
            call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(self._barrier)
            with suppress(grpc.aio.AioRpcError):
                await call(b"", wait_for_ready=True)
        self._closed = True
