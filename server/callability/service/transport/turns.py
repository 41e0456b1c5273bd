"""Whose call is decided next: calls are accepted before any is decided, and connections take turns."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Generator
from contextvars import Context, copy_context
from time import perf_counter, sleep
from typing import Any

from callability.service.transport.edge import Answer, Method
from callability.service.transport.places import SHARED_PEER, Places

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
_QUIET = 0.0002
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

    def arrived(self) -> None:
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
            await self._let_arrive(_QUIET)

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
        self.context: Context | None = None
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
