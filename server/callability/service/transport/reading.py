"""Places for requests that are read: a request stays outside until its caller is known and it has a place.

gRPC lets a message in when it is wanted, and hands it over when it is whole: nothing else counts the bytes meanwhile.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import grpc

from callability.kernel.limits import MESSAGE_BYTES
from callability.service.observability.call_metrics import CallMetrics
from callability.service.requests.errors import TooManyAtOnce
from callability.service.transport.edge import abort, refusal
from callability.service.transport.places import SHARED_PEER, TOO_MANY
from callability.service.transport.received import Received, size_of

if TYPE_CHECKING:
    from callability.service.transport.edge import Context, Ended

SECONDS = 5.0
"""Seconds in which a request arrives, once it has its place."""
HELD_BYTES = 16_384
"""Bytes of a request that keeps its place until its call ends: it takes memory for as long."""
_TOO_SLOW = "the request has not arrived within {:g} s: try again"


@dataclass(frozen=True, slots=True)
class _Arriving:
    since: float
    path: str
    within: contextvars.Context
    """The context of its call."""


class Reading:
    """Reads requests, so many at a time. A connection has at most a quarter of the places, and connections take turns.

    At most `line` requests wait for a place. While none is free and one waits, a request that does not arrive within
    `pressed` seconds is refused, so that those who send nothing keep nobody out. `ended` is called when a request is
    dropped that was read in part.
    """

    def __init__(self, places: int, line: int, pressed: float, metrics: CallMetrics, ended: Ended) -> None:
        self._free = places
        self._share = max(1, places // 4)
        self._line = line
        reads = f"the service reads {places} such requests at a time"
        self._full = f"{reads}, and {line} wait already, or {line // 4} of this connection: try again"
        self._pressed = pressed
        self._metrics = metrics
        self._ended = ended
        self._of: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._arriving: dict[Context, _Arriving] = {}
        """The requests that are being read, the longest first."""
        self._look: asyncio.TimerHandle | None = None
        self._ending: set[asyncio.Task[None]] = set()

    async def request(self, path: str, context: Context, connection: str) -> Received | None:
        """Return the next request of a call of a method; None if there is no other. `done` is called after its use.

        Raises:
            grpc.aio.AbortError: it has no place, or does not arrive in time; the call has ended with the reason.
        """
        loop = asyncio.get_running_loop()
        if connection not in self._waiting and self._may_take(connection):
            self._take(connection)
        elif not await self._place(connection):
            await self._refuse(path, context, TooManyAtOnce(TOO_MANY, self._full))
        self._arriving[context] = _Arriving(loop.time(), path, contextvars.copy_context())
        self._look_later(loop)
        size = 0
        try:
            request: Any = await context.read()
            if request is grpc.aio.EOF:
                return None
            size = size_of(request)
            return request  # type: ignore[no-any-return]
        except BaseException:
            # How much of it has arrived is not known.
            self._ended(MESSAGE_BYTES)
            raise
        finally:
            self._arriving.pop(context, None)
            if size <= HELD_BYTES:
                self._give_back(connection)

    def done(self, connection: str, size: int) -> None:
        """Give back the place that a request of so many bytes still has."""
        if size > HELD_BYTES:
            self._give_back(connection)

    def _may_take(self, connection: str) -> bool:
        # The clients of a Unix socket cannot be distinguished: they share all places.
        return self._free > 0 and (self._of[connection] < self._share or connection == SHARED_PEER)

    def _take(self, connection: str) -> None:
        self._free -= 1
        self._of[connection] += 1

    def _give_back(self, connection: str) -> None:
        self._free += 1
        self._of[connection] -= 1
        if not self._of[connection]:
            del self._of[connection]
        if self._waiting:
            self._admit()

    async def _place(self, connection: str) -> bool:
        """Wait for a place, however long; return whether the line had room for that."""
        line = self._waiting.get(connection, deque())
        most = self._line if connection == SHARED_PEER else self._line // 4
        if len(line) >= most or sum(map(len, self._waiting.values())) >= self._line:
            return False
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.append(place)
        self._waiting[connection] = line
        try:
            await place
        except asyncio.CancelledError:
            if not place.cancelled():
                self._give_back(connection)
            elif place in line:
                line.remove(place)
                if not line:
                    del self._waiting[connection]
            raise
        return True

    def _admit(self) -> None:
        """Give free places to requests that wait: one of each connection, whose others then wait behind all."""
        for connection in tuple(self._waiting):
            line = self._waiting.pop(connection)
            while line and self._may_take(connection):
                # A call that was cancelled is still in the line until it goes on.
                if not (place := line.popleft()).done():
                    self._take(connection)
                    place.set_result(None)
                    break
            if line:
                self._waiting[connection] = line
            if not self._free:
                return

    def _look_later(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._look is None:
            self._look = loop.call_later(self._pressed / 2, self._end_slow, loop)

    def _end_slow(self, loop: asyncio.AbstractEventLoop) -> None:
        self._look, now = None, loop.time()
        seconds = SECONDS if self._free or not self._waiting else self._pressed
        for context, each in tuple(self._arriving.items()):
            if now - each.since < seconds:
                break
            del self._arriving[context]
            slow = TooManyAtOnce("REQUEST_TOO_SLOW", _TOO_SLOW.format(seconds))
            task = loop.create_task(self._end(each.path, context, slow), context=each.within)
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)
        if self._arriving:
            self._look_later(loop)

    async def _end(self, path: str, context: Context, error: TooManyAtOnce) -> None:
        """End a call whose request is being read. The read ends by that; cancelled, it would leave gRPC its memory."""
        # The caller may have gone meanwhile.
        with suppress(grpc.aio.BaseError):
            await self._refuse(path, context, error)

    async def _refuse(self, path: str, context: Context, error: TooManyAtOnce) -> NoReturn:
        self._metrics.refused(path, error.code.name, error.reason)
        await abort(context, refusal(error))
