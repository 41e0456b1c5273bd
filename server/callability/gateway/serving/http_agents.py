"""Requests that agents have in progress over HTTP: no agent can use up the connections of the others."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus

from callability.gateway.config import HttpConfig
from callability.gateway.serving.http_connections import most_connections
from callability.log_interval import LogInterval

UNREAD_BYTES = 64 * 1024 * 1024
"""Bytes of answers that may wait for an agent to read them."""
RESERVE = 16
"""Messages of an agent at its limit that are read at a time: they may end its requests, or be answers of its user."""
_logger = logging.getLogger(__name__)


class TooManyRequests(Exception):
    """An agent has as many requests in progress as it may; the text says so, and what to do."""

    status = HTTPStatus.TOO_MANY_REQUESTS


class HttpAgents:
    """Counts the requests of each agent; use it in one event loop."""

    def __init__(self, limits: Callable[[], HttpConfig]) -> None:
        self._limits = limits
        self._in_progress: Counter[str] = Counter()
        self._refusals = LogInterval()
        self._unread: Counter[str] = Counter()
        self._ends = LogInterval()

    @contextmanager
    def waiting(self, agent: str, size: int) -> Iterator[bool]:
        """Count bytes of an answer until they are sent; yield whether they may wait for the agent to read them."""
        if self._unread[agent] and self._unread[agent] + size > UNREAD_BYTES:
            if happened := self._ends.due(agent):
                who = f"agent `{agent}` does" if agent else "clients without a token do"
                words = "%s not read answers: over %d MiB would wait (connections ended since the last such line: %d)"
                _logger.warning(words, who, UNREAD_BYTES // 1024**2, happened)
            yield False
            return
        self._unread[agent] += size
        try:
            yield True
        finally:
            self._unread[agent] -= size
            if not self._unread[agent]:
                del self._unread[agent]

    @contextmanager
    def counted(self, agent: str, *, may_be_message: bool) -> Iterator[bool]:
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
