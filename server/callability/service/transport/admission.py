"""Which calls are admitted: a limited number at a time, and none once the server is stopping."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import grpc

from callability import request_context
from callability.address import DIRECT
from callability.request_context import REQUEST_ID
from callability.service.observability.call_metrics import CallMetrics
from callability.service.requests.errors import ServiceError, ShuttingDown
from callability.service.transport.edge import refusing
from callability.service.transport.guard import Guard
from callability.service.transport.places import Places
from callability.service.transport.streams import Streams
from callability.service.transport.turns import Turns

if TYPE_CHECKING:
    from callability.service.transport.edge import Handler

_ANSWERING = 2.0
"""Seconds of a stop in which calls that arrive are still answered, if they follow one another without a pause."""
_REFUSING = 1.0
"""Seconds after the last call has ended in which calls are refused, if they follow one another without a pause."""
_QUIET = 0.1
"""Seconds in which no call arrives before the service ends."""


class Admission(grpc.GenericRpcHandler):
    """Finds the handler of each call, in the order in which calls arrive, or refuses the call.

    A method in `always` is answered whatever the load, and also while the server stops. `streams` has places for
    streams without an end. `guard` refuses calls whose caller may not make them, and `metrics` counts what is refused.
    """

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        places: Places,
        turns: Turns,
        streams: Streams,
        always: Collection[str],
        guard: Guard,
        metrics: CallMetrics,
    ) -> None:
        self._guard = guard
        self._metrics = metrics
        metrics.in_progress = lambda: places.in_progress
        metrics.waiting = lambda: turns.waiting
        metrics.streams = lambda: streams.in_progress
        self._handlers = handlers
        self._places = places
        self._turns = turns
        self._streams = streams
        self._always = frozenset(always)
        self._calls: set[asyncio.Task[Any]] = set()
        self._crowded = refusing(places.error)
        self._stopping = refusing(ShuttingDown())
        self._closed = False
        self.is_cutting = False
        """Whether the calls that are left are being ended."""
        self._arrived = 0
        self._barrier = f"/{secrets.token_hex(16)}/Barrier"

    def service(self, details: grpc.HandlerCallDetails) -> Handler | None:
        """Return the handler of a call; None if there is no such method. This runs in the task of the call."""
        self._turns.arrived()
        method = details.method
        handler = self._handlers.get(method)
        if handler is None:
            return None
        request_context.begin(_request_id(details.invocation_metadata), details.invocation_metadata)
        guarded = self._guard.guarded(details, handler)
        self._arrived += method not in self._always
        if self._closed and method not in self._always:
            self._metrics.refused(method, "UNAVAILABLE", "SHUTTING_DOWN")
            return self._stopping
        if isinstance(guarded, ServiceError):
            # It needs no place.
            guarded = self._guard.refused(guarded, method)
        elif guarded.response_streaming:
            # Streams without an end, such as those that watch health, take no place of a call that is answered.
            return self._streams.placed(guarded, method)
        elif self._places.taken and method not in self._always:
            # A call takes its place when its request has arrived, if there is still one.
            self._metrics.refused(method, "RESOURCE_EXHAUSTED", self._places.error.reason)
            return self._crowded
        task = asyncio.current_task()
        assert task is not None
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        return guarded

    async def close(self, address: str, seconds: float) -> None:
        """Answer what has arrived, refuse what arrives later, and wait until the calls have ended.

        End the calls that are left after `seconds`. gRPC's own shutdown would cancel those that it has read and not yet
        passed on, and those that are still in a socket. So calls are answered until none arrives, for at most
        `_ANSWERING` seconds, and those that arrive later have been refused before the service ends.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                quiet = await self._quiet(address, _ANSWERING)
                self._closed = True
                arrived = self._arrived
                if self._calls:
                    await asyncio.wait(self._calls)
                if quiet and self._arrived == arrived:
                    return
        self._closed = self.is_cutting = True
        left = [task for task in self._calls if not task.done()]
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=1)
        await self._quiet(address, _REFUSING)

    async def _quiet(self, address: str, seconds: float) -> bool:
        """Wait until no call arrives between two of our own, for at most so many seconds; return whether none did.

        Ours show that gRPC and this process have kept up: on a busy machine, no call arrives for want of a processor.
        """
        options = (DIRECT, ("grpc.use_local_subchannel_pool", 1))
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds), grpc.aio.insecure_channel(address, options=options) as channel:
                call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(self._barrier)
                arrived = -1
                while arrived != self._arrived:
                    arrived = self._arrived
                    for pause in (0, _QUIET):
                        await asyncio.sleep(pause)
                        with suppress(grpc.aio.AioRpcError):
                            await call(b"", wait_for_ready=True)
            return True
        return False


def _request_id(metadata: Any) -> str | None:
    for key, value in metadata:
        if key == REQUEST_ID:
            return str(value)
    return None
