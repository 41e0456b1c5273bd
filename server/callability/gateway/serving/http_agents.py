"""Requests that agents have in progress over HTTP: no agent can use up the connections of the others."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from callability.gateway.config import HttpConfig
from callability.gateway.serving.http_connections import most_connections
from callability.log_interval import LogInterval

_logger = logging.getLogger(__name__)


class TooManyRequests(Exception):
    """An agent has as many requests in progress as it may; the text says so, and what to do."""


class HttpAgents:
    """Counts the requests of each agent; use it in one event loop."""

    def __init__(self, limits: Callable[[], HttpConfig]) -> None:
        self._limits = limits
        self._in_progress: Counter[str] = Counter()
        self._refusals = LogInterval()

    @contextmanager
    def counted(self, agent: str) -> Iterator[None]:
        """Count a request, or a stream, until its answer has ended.

        Raises:
            TooManyRequests: the agent has no place for it.
        """
        # Clients without a token cannot be distinguished: with a limit, one would need fewer to lock out the others.
        if agent:
            self._check(agent)
        self._in_progress[agent] += 1
        try:
            yield
        finally:
            self._in_progress[agent] -= 1
            if not self._in_progress[agent]:
                del self._in_progress[agent]

    def _check(self, agent: str) -> None:
        most = min(self._limits().requests_per_agent, max(1, most_connections() // 2))
        if self._in_progress[agent] < most:
            return
        fact = f"agent `{agent}` has {most:,} request{'s' if most > 1 else ''} in progress, which is the limit"
        if happened := self._refusals.due(agent):
            words = "%s `http.requests_per_agent` (refused since the last such line: %d)"
            _logger.warning(words, fact, happened)
        raise TooManyRequests(f"The request was not carried out: {fact}. End a stream, or wait for an answer.")
