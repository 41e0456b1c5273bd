"""The edge of the service: bytes come in, bytes go out, and every error becomes a gRPC status with a stable reason.

gRPC lets a message in when it is wanted, and hands it over when it is whole. So a request stays outside until its
caller is known and it has a place; of one that is larger than its method takes, only the size is kept.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from contextlib import suppress
from dataclasses import dataclass
from time import perf_counter
from types import coroutine
from typing import Any, NoReturn, TypeAlias

import grpc
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from callability.kernel.limits import MESSAGE_BYTES, InvalidRequest
from callability.process import logs
from callability.process.logs import REQUEST_ID
from callability.service.callers import InternalError, ServiceError, ShuttingDown, TooManyAtOnce
from callability.service.metrics import CallMetrics, MethodCalls

# Only the stubs of gRPC have parameters.
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"


@dataclass(frozen=True, slots=True)
class TooLarge:
    """What is kept of a request with so many bytes, whose method takes at most `limit`."""

    size: int
    limit: int


Received: TypeAlias = bytes | TooLarge


def at_most(limit: int, dropped: Callable[[int], object]) -> Callable[[bytes], Received]:
    """Return a deserializer that drops a request of more than so many bytes, and calls `dropped` with its size."""

    def count_received(data: bytes) -> Received:
        if len(data) <= limit:
            return data
        dropped(len(data))
        return TooLarge(len(data), limit)

    return count_received


def size_of(request: Received | None) -> int:
    """Return how many bytes are held of a request."""
    return len(request) if isinstance(request, bytes) else 0


def check_request(request: Received | None) -> bytes:
    """Return a request.

    Raises:
        InvalidRequest: there is none, or it has more bytes than its method takes.
    """
    if request is None:
        raise InvalidRequest("REQUEST_MALFORMED", "the call has no request")
    if isinstance(request, TooLarge):
        sentence = f"the request has {request.size:,} bytes, and may have {request.limit:,}"
        raise InvalidRequest("REQUEST_TOO_LARGE", sentence)
    return request


SHARED_PEER = "unix:"
"""What gRPC calls every client of a Unix socket."""
TOO_MANY = "TOO_MANY_CALLS"
"""The reason of a refusal for want of a place."""


class Places:
    """A stated number of places. A connection may have as many as it leaves free, so that the next one finds some.

    Alone, it has half of them; beside another that wants as many as it can get, a third. A call that was opened and has
    sent no request holds none: nothing would end it but its caller.
    """

    def __init__(self, limit: int, does: str = "answers", what: str = "calls") -> None:
        self._limit = limit
        self._does = f"the service {does} {limit:,} {what} at a time"
        self._free = limit
        self._of: Counter[str] = Counter()

    @property
    def error(self) -> TooManyAtOnce:
        """What a call is refused with if all are taken."""
        return TooManyAtOnce(TOO_MANY, f"{self._does}, and has as many: try again")

    @property
    def taken(self) -> bool:
        """Whether all are taken."""
        return self._free <= 0

    @property
    def in_progress(self) -> int:
        """How many are taken."""
        return self._limit - self._free

    @property
    def only_one(self) -> bool:
        """Whether a single call is in progress."""
        return self._limit - self._free == 1

    def take(self, connection: str) -> None:
        """Take a place for a call of a connection.

        Raises:
            TooManyAtOnce: all are taken, or the connection has its share.
        """
        if self._free <= 0:
            raise self.error
        # The clients of a Unix socket cannot be distinguished: they share all places.
        if (mine := self._of[connection]) >= self._free and connection != SHARED_PEER:
            raise TooManyAtOnce(TOO_MANY, f"{self._does}, and this connection has its share of {mine:,}: try again")
        self._free -= 1
        self._of[connection] = mine + 1

    def give_back(self, connection: str) -> None:
        """Give back the place of a call that has ended."""
        self._free += 1
        self._of[connection] -= 1
        if not self._of[connection]:
            del self._of[connection]


DOMAIN = "callability.v1"
Method = Callable[[bytes], Awaitable[bytes]]
Answer = Callable[[bytes, str], Awaitable[bytes]]
"""What replies to a request of a connection."""
Ended = Callable[[int], object]
"""Called with the size of a request when it is needed no longer."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Refusal:
    """How a refused call ends. It holds no reference to the call, because gRPC keeps it for a while."""

    code: grpc.StatusCode
    reason: str
    message: str
    trailing_metadata: tuple[tuple[str, str | bytes], ...]


def unary(
    answer: Answer,
    path: str,
    request_bytes: int,
    reading: ReadingPlaces,
    places: Places,
    ended: Ended,
    calls: MethodCalls,
    is_cutting: Callable[[], bool],
) -> Handler:
    """Return the handler of a call with one request, of at most so many bytes, and one reply; `calls` counts it.

    `is_cutting` says whether the service itself ends the calls that are left.
    """

    async def handle(_requests: object, context: Context) -> bytes:
        connection = context.peer()
        context.set_trailing_metadata(_request_id())
        request = await reading.request(path, context, connection)
        started = perf_counter()
        count, given_up = calls.count_refusal, False
        try:
            places.take(connection)
            count = calls.count_error
            try:
                reply = await answer(check_request(request), connection)
                calls.count_reply(perf_counter() - started)
                return reply
            finally:
                places.give_back(connection)
        except asyncio.CancelledError:
            # The server ends what is left when its grace time is over. Otherwise the client has cancelled the call, or
            # its deadline is over: then nobody reads the status.
            refused, given_up = refusal(ShuttingDown()), not is_cutting()
        except Exception as error:
            refused = refusal(error)
        finally:
            reading.done(connection, size_of(request))
            ended(size_of(request))
        # The exception that `abort` raises stays in a cycle of references, and this frame with it.
        del request
        code, reason = ("CANCELLED", "") if given_up else (refused.code.name, refused.reason)
        count(code, perf_counter() - started, reason)
        return await abort(context, refused)

    return grpc.stream_unary_rpc_method_handler(handle, at_most(request_bytes, ended))


def conversing(method: Method, path: str, request_bytes: int, reading: ReadingPlaces, ended: Ended) -> Handler:
    """Return the handler of a call in which each request of a stream, of at most so many bytes, has one reply."""

    async def handle(_requests: object, context: Context) -> AsyncIterator[bytes]:
        connection = context.peer()
        while (request := await reading.request(path, context, connection)) is not None:
            try:
                reply = await method(check_request(request))
            except Exception as error:
                refused = refusal(error)
                break
            yield reply
        else:
            return
        await abort(context, refused)

    return grpc.stream_stream_rpc_method_handler(handle, at_most(request_bytes, ended))


def streaming(
    follow: Callable[[bytes], AsyncIterator[bytes]], path: str, request_bytes: int, reading: ReadingPlaces, ended: Ended
) -> Handler:
    """Return the handler of a call with one request, of at most so many bytes, and replies without an end."""

    async def handle(_requests: object, context: Context) -> AsyncIterator[bytes]:
        context.set_trailing_metadata(_request_id())
        request = await reading.request(path, context, context.peer())
        try:
            async for reply in follow(check_request(request)):
                yield reply
        except asyncio.CancelledError:
            refused = refusal(ShuttingDown())
        except Exception as error:
            refused = refusal(error)
        await abort(context, refused)

    return grpc.stream_stream_rpc_method_handler(handle, at_most(request_bytes, ended))


def refusing(error: ServiceError) -> Handler:
    """Return the handler that refuses any call at once, without waiting for its request."""
    refused = refusal(error)

    async def handle(_requests: AsyncIterator[bytes], context: Context) -> bytes:
        await abort(context, refused)

    return grpc.stream_unary_rpc_method_handler(handle)


def refusal(error: Exception) -> Refusal:
    """Return how a call ends with an error. A fault of the service is logged, and its caller learns no more."""
    if not isinstance(error, ServiceError | InvalidRequest):
        _log.error("a call failed", exc_info=error)
        error = InternalError()
    code = grpc.StatusCode.INVALID_ARGUMENT if isinstance(error, InvalidRequest) else error.code
    info = any_pb2.Any()
    info.Pack(error_details_pb2.ErrorInfo(reason=error.reason, domain=DOMAIN))
    status = status_pb2.Status(code=code.value[0], message=error.message, details=[info])
    return Refusal(code, error.reason, error.message, tuple(rpc_status.to_status(status).trailing_metadata or ()))


async def abort(context: Context, refused: Refusal) -> NoReturn:
    """End a call."""
    await context.abort(refused.code, refused.message, (*refused.trailing_metadata, *_request_id()))


def _request_id() -> tuple[tuple[str, str], ...]:
    """Return the trailing metadata with the id of the current request."""
    request = logs.current()
    return () if request is None else ((REQUEST_ID, request.request_id),)


SECONDS = 5.0
"""Seconds in which a request arrives, once it has its place."""
HELD_BYTES = 16_384
"""Bytes of a request that keeps its place until its call ends: it takes memory for as long."""
COPIED_BYTES = 262_144
"""Bytes of a request that takes long to copy."""
_TOO_SLOW = "the request has not arrived within {:g} s: try again"


@dataclass(frozen=True, slots=True)
class _Arriving:
    since: float
    path: str
    within: contextvars.Context
    """The context of its call."""


class Copies:
    """Lets other calls go on between requests that have arrived. Use one for all requests of an event loop.

    gRPC copies a request into Python when its call goes on. Large ones often arrive together, from as many connections,
    and would keep the event loop from everything else until all of them are copied. Which request is large is not known
    before, so the last to arrive and the first take turns: a small one waits for two others, whatever came before it.
    """

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._copying = False
        """Whether a large request was copied, and other calls have not had their turn since."""
        self._last_first = False

    @coroutine
    def take(self, read: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """Return what is read, when it has arrived and it is its turn to be copied."""
        loop = asyncio.get_running_loop()
        error: BaseException | None = None
        turn: asyncio.Future[None] | None = None
        while True:
            try:
                waits_for = read.throw(error) if error else read.send(None)
            except StopIteration as end:
                if isinstance(end.value, TooLarge) or size_of(end.value) > COPIED_BYTES:
                    self._copying = True
                    loop.call_soon(self._give_turn)
                    turn = None
                return end.value
            finally:
                if turn is not None:
                    self._give_turn()
                    turn = None
            try:
                yield waits_for
                if self._copying:
                    turn = loop.create_future()
                    self._waiting.append(turn)
                    yield from turn
                error = None
            except BaseException as raised:
                error = raised
                if turn is not None and turn.cancelled():
                    turn = None

    def _give_turn(self) -> None:
        while self._waiting:
            self._last_first = not self._last_first
            turn = self._waiting.pop() if self._last_first else self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._copying = False


class ReadingPlaces:
    """Reads requests, so many at a time. A connection has at most a quarter of the places, and connections take turns.

    At most `line` requests wait for a place. While none is free and one waits, a request that does not arrive within
    `pressed` seconds is refused, so that those who send nothing keep nobody out. `ended` is called when a request is
    dropped that was read in part.
    """

    def __init__(
        self, places: int, line: int, pressed: float, metrics: CallMetrics, ended: Ended, copies: Copies
    ) -> None:
        self._copies = copies
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
            request: Any = await self._copies.take(context.read())
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
        self._metrics.count_refusal(path, error.code.name, error.reason)
        await abort(context, refusal(error))
