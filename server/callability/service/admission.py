"""Which calls are admitted, and whose is next: so many at a time, connections in turns, and streams apart."""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Collection, Generator, Mapping
from contextlib import aclosing, suppress
from contextvars import Context as ContextVariables
from contextvars import copy_context
from inspect import isasyncgen
from time import perf_counter, sleep
from typing import Any

import grpc

from callability.process import logs
from callability.process.address import DIRECT
from callability.process.logs import REQUEST_ID
from callability.service.callers import ServiceError, ShuttingDown, TooManyAtOnce
from callability.service.edge import SHARED_PEER, Answer, Context, Handler, Method, Places, abort, refusal, refusing
from callability.service.guard import Guard
from callability.service.metrics import CallMetrics

TURN = 0.0002
"""Seconds of deciding, after which calls that gRPC has passed on arrive: one that is short is decided at once."""
_DECIDING = 0.001
"""Seconds of deciding, after which calls that have come in are accepted, even if that takes a while."""
_ACCEPTING = 0.01
"""Seconds of accepting, after which calls are decided again: calls that are refused at once may come in without end."""
_PASSES = 8
"""Passes of the event loop within which what gRPC has passed on arrives, and a short call has its reply."""
_FEW = 8
"""Calls beyond those decided that come in at a time without being the start of many."""
_ARRIVAL_SECONDS = 0.0002
"""Seconds without an arrival after which no other is waited for: a thread of gRPC passes on one call at a time."""


class Turns:
    """Decides the calls that wait, one connection after the other, and those of a connection in order of arrival.

    A call that takes longer than one turn continues when its connection has the next.
    """

    def __init__(self) -> None:
        self._waiting: dict[object, deque[_Call]] = {}
        self._arrivals = 0
        self._deciding: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """How many calls wait for a turn."""
        return sum(map(len, tuple(self._waiting.values())))

    def note_arrival(self) -> None:
        """Note that a call has arrived, so that others may come right after it."""
        self._arrivals += 1

    def answer(self, method: Method, places: Places, at_once_bytes: int) -> Answer:
        """Return what replies by a method that waits for nothing else.

        A request of at most so many bytes is decided on arrival: that takes less time than its arrival. So is the only
        call in progress. If it takes longer than a turn, it waits for its next one as others do.
        """

        async def answer(request: bytes, connection: str) -> bytes:
            call = _Call(method(request).__await__())
            at_once = len(request) <= at_once_bytes or (places.only_one and not self._waiting)
            try:
                if at_once and call.go_on():
                    return call.reply.result()
                return await self._in_turn(call, connection)
            finally:
                # An error refers to this frame; it would keep the request in a cycle of references.
                del call, request

        return answer

    async def _in_turn(self, call: _Call, connection: str) -> bytes:
        # Its turns come in another task, whose context is that of another call.
        call.context = copy_context()
        # The clients of a Unix socket cannot be distinguished: each of their calls has turns of its own.
        self._waiting.setdefault(call if connection == SHARED_PEER else connection, deque()).append(call)
        if self._deciding is None:
            self._deciding = asyncio.create_task(self._decide())
        try:
            return await call.reply
        finally:
            call.end()
            del call

    async def _decide(self) -> None:
        decided = 0
        while self._waiting:
            await self._accept(decided)
            decided = 0
            now = perf_counter()
            end, turn = now + _DECIDING, now + TURN
            while self._waiting and (now := perf_counter()) < end:
                if now >= turn:
                    await self._let_arrive()
                    turn = perf_counter() + TURN
                decided += self._give_turn()
        self._deciding = None

    async def _accept(self, decided: int) -> None:
        """Let the event loop accept what comes in: until nothing more does, if that is much more than was decided."""
        end = perf_counter() + _ACCEPTING
        before = seen = self._arrivals
        await self._let_arrive()
        while self._arrivals - before > decided + _FEW and self._arrivals > seen and perf_counter() < end:
            seen = self._arrivals
            await self._let_arrive(_ARRIVAL_SECONDS)

    async def _let_arrive(self, seconds: float = 0) -> None:
        """Let the calls arrive that have come in already, or come in within some time."""
        # A thread of gRPC passes calls on. It waits for Python's lock, for milliseconds unless the lock is let go of.
        sleep(seconds)  # noqa: ASYNC251 (the event loop is to wait)
        for _ in range(_PASSES):
            await asyncio.sleep(0)

    def _give_turn(self) -> bool:
        """Let the connection whose turn it is go on with its first call; return whether that ended."""
        connection, calls = next(iter(self._waiting.items()))
        del self._waiting[connection]
        if ended := calls[0].go_on():
            calls.popleft()
        if calls:
            self._waiting[connection] = calls
        return ended


class _Call:
    """A call that is decided in steps, and its reply."""

    def __init__(self, steps: Generator[Any, None, bytes]) -> None:
        self._steps = steps
        self.context: ContextVariables | None = None
        """That in which it goes on; None: that of the caller."""
        self.reply: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def go_on(self) -> bool:
        """Go on until the call lets others have a turn; return whether it has ended."""
        if self.reply.done():
            return True
        try:
            if self.context is None:
                next(self._steps)
            else:
                self.context.run(next, self._steps)
        except StopIteration as ended:
            self.reply.set_result(ended.value)
        except Exception as error:
            # Without this frame, which refers to the error itself.
            self.reply.set_exception(error.with_traceback(error.__traceback__ and error.__traceback__.tb_next))
        return self.reply.done()

    def end(self) -> None:
        """Give up what is left to do: the caller has its reply, or has gone."""
        self._steps.close()


class Streams:
    """So many places for the streams of `open_methods`, and as many for all others.

    A connection has its share of them, as of the places of calls.
    """

    def __init__(self, limit: int, open_methods: Collection[str], metrics: CallMetrics) -> None:
        self._open_methods = frozenset(open_methods)
        self._open = Places(limit, "keeps", "streams that watch health")
        self._others = Places(limit, "keeps", "streams")
        self._metrics = metrics

    @property
    def in_progress(self) -> int:
        """How many are open."""
        return self._open.in_progress + self._others.in_progress

    def place(self, handler: Any, method: str) -> Handler:
        """Return a handler that ends a stream for which there is no place, and goes on as the given one otherwise."""
        places = self._open if method in self._open_methods else self._others
        answer: Any = handler.stream_stream

        async def stream(request: Any, context: Context) -> None:
            connection = context.peer()
            try:
                places.take(connection)
            except TooManyAtOnce as error:
                self._metrics.count_refusal(method, error.code.name, error.reason)
                refused = refusal(error)
            else:
                try:
                    await _write(answer(request, context), context)
                finally:
                    places.give_back(connection)
                return
            await abort(context, refused)

        return grpc.stream_stream_rpc_method_handler(stream, handler.request_deserializer, handler.response_serializer)


async def _write(replies: Any, context: Context) -> None:
    """Write the replies of a handler that yields them; any other writes them itself."""
    if not isasyncgen(replies):
        await replies
        return
    async with aclosing(replies):
        async for reply in replies:
            await context.write(reply)


_ANSWERING = 2.0
"""Seconds of a stop in which calls that arrive are still answered, if they follow one another without a pause."""
_REFUSING = 1.0
"""Seconds after the last call has ended in which calls are refused, if they follow one another without a pause."""
_PAUSE = 0.1
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
        self._turns.note_arrival()
        method = details.method
        handler = self._handlers.get(method)
        if handler is None:
            return None
        logs.begin(_request_id(details.invocation_metadata), details.invocation_metadata)
        guarded = self._guard.guard_call(details, handler)
        self._arrived += method not in self._always
        if self._closed and method not in self._always:
            self._metrics.count_refusal(method, "UNAVAILABLE", "SHUTTING_DOWN")
            return self._stopping
        if isinstance(guarded, ServiceError):
            # It needs no place.
            guarded = self._guard.refuse(guarded, method)
        elif guarded.response_streaming:
            # Streams without an end, such as those that watch health, take no place of a call that is answered.
            return self._streams.place(guarded, method)
        elif self._places.taken and method not in self._always:
            # A call takes its place when its request has arrived, if there is still one.
            self._metrics.count_refusal(method, "RESOURCE_EXHAUSTED", self._places.error.reason)
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
                    for pause in (0, _PAUSE):
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
