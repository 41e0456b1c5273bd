"""Sessions over HTTP (MCP 2025-11-25 and older) and requests in progress: no agent can use up what the others need."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from starlette.types import ASGIApp, Message, Scope

from callability.gateway.config.model import HttpConfig
from callability.gateway.serving.http_connections import most_connections
from callability.gateway.serving.mcp_server import SESSION
from callability.gateway.serving.streams import UNREAD_BYTES
from callability.process.background import begin_task
from callability.process.logs import LogInterval

RESERVE = 16
"""Messages of an agent at its limit that are read at a time: they may end its requests, or be answers of its user."""
LARGE_BYTES = 65_536
"""Requests of at most so many bytes never wait for others of their agent."""
LARGE_BYTES_AT_ONCE = 4 * 1024 * 1024
"""Bytes of an agent's larger requests that are in progress at a time; one that has more alone is in progress alone."""
LARGE_BYTES_A_SECOND = 8 * 1024 * 1024
"""How soon the bytes of one that has ended are free: in the pause others are answered."""
_logger = logging.getLogger(__name__)


class TooManyRequests(Exception):
    """An agent has as many requests in progress as it may; the text says so, and what to do."""

    status = HTTPStatus.TOO_MANY_REQUESTS


@dataclass(eq=False, slots=True)
class _Unread:
    """An answer of which `size` bytes wait for the client at an address."""

    address: str
    size: int
    end: Callable[[], object]


@dataclass(slots=True)
class _LargeRequests:
    """The large requests of an agent: the bytes of those in progress, and what the next one waits for."""

    in_progress: int = 0
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def end(self, size: int) -> None:
        """Let others in after one has ended."""
        self.in_progress -= size
        self.ended.set()


class HttpAgents:
    """Counts the requests of each agent; use it in one event loop."""

    def __init__(self, limits: Callable[[], HttpConfig]) -> None:
        self._limits = limits
        self._in_progress: Counter[str] = Counter()
        self._refusals = LogInterval()
        self._large: defaultdict[str, _LargeRequests] = defaultdict(_LargeRequests)
        self._unread: defaultdict[str, dict[_Unread, None]] = defaultdict(dict)
        """The answers that wait, by agent; those of which something was read last are last."""
        self._ends = LogInterval()

    @contextmanager
    def waiting(
        self, agent: str, address: str, size: int, end: Callable[[], object]
    ) -> Iterator[Callable[[int], None]]:
        """Count bytes of an answer until they are sent; yield what is called with the number of each part that is read.

        If more would wait for an agent than may, connections of those clients end that read least: clients without a
        token are one agent, and one of them must not use up what the others need. `end` ends the connection.
        """
        answer = _Unread(address, size, end)
        while (waiting := self._unread[agent]) and sum(each.size for each in waiting) + size > UNREAD_BYTES:
            self._end_one(agent, waiting, answer)
        self._unread[agent][answer] = None

        def read(part: int) -> None:
            answer.size -= part
            if answer in self._unread[agent]:
                del self._unread[agent][answer]
                self._unread[agent][answer] = None

        try:
            yield read
        finally:
            self._unread[agent].pop(answer, None)
            if not self._unread[agent]:
                del self._unread[agent]

    def _end_one(self, agent: str, waiting: dict[_Unread, None], new: _Unread) -> None:
        """End a connection of the address for which most waits: the one of which nothing was read for longest."""
        sizes = Counter[str]()
        for each in (*waiting, new):
            sizes[each.address] += each.size
        address = max((each.address for each in waiting), key=sizes.__getitem__)
        ended = next(each for each in waiting if each.address == address)
        if happened := self._ends.due(agent):
            who = f"agent `{agent}` does" if agent else "clients without a token do"
            words = "%s not read answers: over %d MiB would wait (connections ended since the last such line: %d)"
            _logger.warning(words, who, UNREAD_BYTES // 1024**2, happened)
        del waiting[ended]
        ended.end()

    @contextmanager
    def count(self, agent: str, *, may_be_message: bool) -> Iterator[bool]:
        """Count a request, or a stream, until its answer has ended; yield whether the agent has a place for it.

        One that may be a message without an answer has a place in the reserve beyond the limit, to be read.

        Raises:
            TooManyRequests: the agent has no place for it, nor in the reserve.
        """
        # Clients without a token cannot be distinguished: with a limit, one would need fewer to lock out the others.
        beyond = self._in_progress[agent] - self._most if agent else -1
        if beyond >= (min(RESERVE, most_connections() // 4) if may_be_message else 0):
            raise self.refusal(agent)
        self._in_progress[agent] += 1
        try:
            yield beyond < 0
        finally:
            self._in_progress[agent] -= 1
            if not self._in_progress[agent]:
                del self._in_progress[agent]

    @asynccontextmanager
    async def turn(self, agent: str, size: int) -> AsyncIterator[None]:
        """Wait until a request may be read: an agent has a few large ones in progress, and its others wait in order.

        To read one takes up to a hundred times its bytes of memory, and seconds in which nobody is answered.
        """
        if size <= LARGE_BYTES:
            yield
            return
        large = self._large[agent]
        async with large.turn:
            while large.in_progress and large.in_progress + size > LARGE_BYTES_AT_ONCE:
                large.ended.clear()
                await large.ended.wait()
            large.in_progress += size
        try:
            yield
        finally:
            asyncio.get_running_loop().call_later(size / LARGE_BYTES_A_SECOND, large.end, size)

    @property
    def _most(self) -> int:
        return min(self._limits().requests_per_agent, max(1, most_connections() // 2))

    def refusal(self, agent: str) -> TooManyRequests:
        """Log that a request is refused, and return the error that says so."""
        most = self._most
        fact = f"agent `{agent}` has {most:,} request{'s' if most > 1 else ''} in progress, which is the limit"
        if happened := self._refusals.due(agent):
            own = most == self._limits().requests_per_agent
            half = f": half of the {most_connections():,} connections that the limit of open files allows"
            key = " `http.requests_per_agent`" if own else half
            _logger.warning("%s%s (refused since the last such line: %d)", fact, key, happened)
        return TooManyRequests(f"The request was not carried out: {fact}. End a stream, or wait for an answer.")


class TooManySessions(Exception):
    """No more sessions can be opened; the text says why and what to do, and `status` is the HTTP status."""

    def __init__(self, text: str, status: HTTPStatus) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True, slots=True)
class _Limit:
    """A limit of the config that is reached; its text says whose, and how many sessions are open."""

    key: str
    who: str
    most: int
    status: HTTPStatus

    def __str__(self) -> str:
        return f"{self.who} {self.most:,} session{'s' if self.most > 1 else ''} open, which is the limit"


@dataclass(slots=True)
class _Session:
    agent: str
    address: str
    """The address of the client that opened it."""
    ending: Scope
    """The request that ends the session."""
    requests: int = 0
    streams: int = 0
    """How many of its requests are open streams, on which no answer is waited for."""
    idle_since: float = 0.0
    """The event loop's time at which its last request ended."""
    used_at: float = 0.0
    """The event loop's time at which its last request other than a stream ended."""
    expiry: asyncio.TimerHandle | None = None


class HttpSessions:
    """The open sessions; the library's `application` holds them. Use it in one event loop.

    `on_end` is called with the id of each session that ends.
    """

    def __init__(self, application: ASGIApp, limits: Callable[[], HttpConfig], on_end: Callable[[str], object]) -> None:
        self._application = application
        self._on_end = on_end
        self._limits = limits
        self._sessions: dict[str, _Session] = {}
        self._open: Counter[str] = Counter()
        self._refusals = LogInterval()
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = False

    @property
    def by_agent(self) -> Mapping[str, int]:
        """How many sessions each agent has open."""
        return dict(self._open)

    @asynccontextmanager
    async def opening(self, agent: str, address: str) -> AsyncIterator[Callable[[str, Scope], None]]:
        """Reserve a place for a session of an agent, and yield what takes the id of the session once it is open.

        Clients without a token are one agent, and none of them may lock the others out: at the limit, a session of the
        address that has most of them ends, the one that was unused for longest.

        Raises:
            TooManySessions: there is no place.
        """
        while (full := self._limit_reached(agent)) and not (not agent and self._make_room(address, full)):
            raise self._refusal(agent, full)
        self._open[agent] += 1
        opened: list[str] = []

        def note(session: str, scope: Scope) -> None:
            opened.append(session)
            self._sessions[session] = _Session(agent, address, _ending(session, scope), requests=1)

        try:
            yield note
        finally:
            if opened:
                self._release(opened[0])
            else:
                self._leave(agent)

    @asynccontextmanager
    async def using(self, session: str, agent: str, *, is_stream: bool = False) -> AsyncIterator[None]:
        """Keep a session from expiring; an agent cannot use a session of another."""
        known = self._sessions.get(session)
        if known is None or known.agent != agent:
            yield
            return
        known.requests += 1
        known.streams += is_stream
        if known.expiry is not None:
            known.expiry.cancel()
            known.expiry = None
        try:
            yield
        finally:
            known.streams -= is_stream
            self._release(session, is_stream=is_stream)

    def forget(self, session: str, agent: str) -> None:
        """Forget a session that the library no longer knows."""
        known = self._sessions.get(session)
        if known is not None and known.agent == agent:
            self._forget(session)

    def apply_limits(self) -> None:
        """Let sessions that are idle end when the edited limits say."""
        for session, known in self._sessions.items():
            if known.expiry is not None and not known.requests:
                known.expiry.cancel()
                self._schedule_expiry(session, known)

    def stop(self) -> None:
        """End every session as soon as it has no request under way."""
        self._stopping = True
        self._begin(self._end([session for session, it in self._sessions.items() if not it.requests]))

    async def close(self) -> None:
        """End every session, and return when all have ended.

        They end one after the other: if all were cancelled together, each would be visited again and again until the
        last one has ended.
        """
        await asyncio.gather(*self._tasks)
        await self._end(list(self._sessions))

    def _limit_reached(self, agent: str) -> _Limit | None:
        """Return the limit at which an agent can open no session; None if it can."""
        limits = self._limits()
        if self._open[agent] >= limits.sessions_per_agent:
            who = f"agent `{agent}` has" if agent else "clients without a token have"
            return _Limit("sessions_per_agent", who, limits.sessions_per_agent, HTTPStatus.TOO_MANY_REQUESTS)
        if self._open.total() >= limits.sessions:
            return _Limit("sessions", "all agents together have", limits.sessions, HTTPStatus.SERVICE_UNAVAILABLE)
        return None

    def _refusal(self, agent: str, full: _Limit) -> TooManySessions:
        """Log that no session is opened, and return the error that says so."""
        if happened := self._refusals.due(f"{full.key} {agent}"):
            _logger.warning("%s `http.%s` (refused since the last such line: %d)", full, full.key, happened)
        return TooManySessions(
            f"No session was opened: {full}. End one by DELETE with its Mcp-Session-Id, or wait: a session without a"
            f" request ends after {self._limits().session_idle_seconds:g} s. MCP 2026-07-28 needs no session.",
            full.status,
        )

    def _make_room(self, address: str, full: _Limit) -> bool:
        """End a session that was opened without a token and answers nothing; return False if there is none.

        An address never ends a session of one that has fewer.
        """
        without_token = [(session, it) for session, it in self._sessions.items() if not it.agent]
        unused = [(session, it) for session, it in without_token if it.requests == it.streams]
        if not unused:
            return False
        sizes = Counter([address, *(it.address for _, it in without_token)])
        session, known = min(unused, key=lambda each: (-sizes[each[1].address], each[1].streams, each[1].used_at))
        if sizes[known.address] < sizes[address]:
            return False
        if happened := self._refusals.due("unused"):
            words = "%s `http.%s`: the one that was unused for longest ends (ended since the last such line: %d)"
            _logger.warning(words, full, full.key, happened)
        self._forget(session)
        self._begin(self._end_in_library(known))
        return True

    def _release(self, session: str, *, is_stream: bool = False) -> None:
        known = self._sessions.get(session)
        if known is None:
            return
        known.requests -= 1
        if not is_stream:
            known.used_at = asyncio.get_running_loop().time()
        if known.requests:
            return
        if self._stopping:
            self._begin(self._end([session]))
        else:
            known.idle_since = asyncio.get_running_loop().time()
            self._schedule_expiry(session, known)

    def _schedule_expiry(self, session: str, known: _Session) -> None:
        end = known.idle_since + self._limits().session_idle_seconds
        known.expiry = asyncio.get_running_loop().call_at(end, self._expire, session)

    def _expire(self, session: str) -> None:
        self._begin(self._end_unused(session))

    async def _end_unused(self, session: str) -> None:
        known = self._sessions.get(session)
        # A request may have come since the time was over: it keeps the session.
        if known is not None and not known.requests:
            await self._end([session])

    async def _end(self, sessions: list[str]) -> None:
        for session in sessions:
            known = self._forget(session)
            if known is not None:
                await self._end_in_library(known)

    async def _end_in_library(self, known: _Session) -> None:
        await self._application(known.ending, _no_body, _nobody)
        # Calls in flight get a turn.
        await asyncio.sleep(0)

    def _forget(self, session: str) -> _Session | None:
        known = self._sessions.pop(session, None)
        if known is not None:
            if known.expiry is not None:
                known.expiry.cancel()
            self._leave(known.agent)
            self._on_end(session)
        return known

    def _leave(self, agent: str) -> None:
        self._open[agent] -= 1
        if not self._open[agent]:
            del self._open[agent]

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        begin_task(work, self._tasks)


def _ending(session: str, scope: Scope) -> Scope:
    """Return the request by which the client itself could end a session."""
    kept = [(key, value) for key, value in scope["headers"] if key in (b"host", b"origin")]
    user = {"user": scope["user"]} if "user" in scope else {}
    return {
        "type": "http",
        "asgi": scope["asgi"],
        "http_version": "1.1",
        "method": "DELETE",
        "scheme": "http",
        "path": scope["path"],
        "root_path": "",
        "query_string": b"",
        "headers": [*kept, (SESSION.encode(), session.encode())],
        **user,
    }


async def _no_body() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _nobody(_: Message) -> None:
    """Send the answer to nobody."""
