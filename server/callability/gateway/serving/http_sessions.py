"""Sessions of MCP 2025-11-25 and older over HTTP: how many an agent may have, and when one ends."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from starlette.types import ASGIApp, Message, Scope

from callability.gateway.config import HttpConfig
from callability.log_interval import LogInterval

SESSION = "mcp-session-id"
"""The header with the id of a session."""
_logger = logging.getLogger(__name__)


class TooManySessions(Exception):
    """No more sessions can be opened; the text says why and what to do, and `status` is the HTTP status."""

    def __init__(self, text: str, status: HTTPStatus) -> None:
        super().__init__(text)
        self.status = status


@dataclass(slots=True)
class _Session:
    agent: str
    ending: Scope
    """The request that ends the session."""
    requests: int = 0
    idle_since: float = 0.0
    """The event loop's time at which its last request ended."""
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
    async def opening(self, agent: str) -> AsyncIterator[Callable[[str, Scope], None]]:
        """Reserve a place for a session of an agent, and yield what takes the id of the session once it is open.

        Raises:
            TooManySessions: there is no place.
        """
        self._check(agent)
        self._open[agent] += 1
        opened: list[str] = []

        def note(session: str, scope: Scope) -> None:
            opened.append(session)
            self._sessions[session] = _Session(agent, _ending(session, scope), requests=1)

        try:
            yield note
        finally:
            if opened:
                self._release(opened[0])
            else:
                self._leave(agent)

    @asynccontextmanager
    async def using(self, session: str, agent: str) -> AsyncIterator[None]:
        """Keep a session from expiring; an agent cannot use a session of another."""
        known = self._sessions.get(session)
        if known is None or known.agent != agent:
            yield
            return
        known.requests += 1
        if known.expiry is not None:
            known.expiry.cancel()
            known.expiry = None
        try:
            yield
        finally:
            self._release(session)

    def ended(self, session: str, agent: str) -> None:
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

    def _check(self, agent: str) -> None:
        limits, all_agents = self._limits(), self._open.total()
        if self._open[agent] >= limits.sessions_per_agent:
            who = f"agent `{agent}` has" if agent else "clients without a token have"
            most, key, status = limits.sessions_per_agent, "sessions_per_agent", HTTPStatus.TOO_MANY_REQUESTS
        elif all_agents >= limits.sessions:
            who, most, key, status = (
                "all agents together have",
                limits.sessions,
                "sessions",
                HTTPStatus.SERVICE_UNAVAILABLE,
            )
        else:
            return
        fact = f"{who} {most:,} session{'s' if most > 1 else ''} open, which is the limit"
        if happened := self._refusals.due(f"{key} {agent}"):
            _logger.warning("%s `http.%s` (refused since the last such line: %d)", fact, key, happened)
        raise TooManySessions(
            f"No session was opened: {fact}. End one by DELETE with its Mcp-Session-Id, or wait: a session without a"
            f" request ends after {limits.session_idle_seconds:g} s. MCP 2026-07-28 needs no session.",
            status,
        )

    def _release(self, session: str) -> None:
        known = self._sessions.get(session)
        if known is None:
            return
        known.requests -= 1
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

    def _begin(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


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
