"""Limits log lines that an outsider could cause at any rate: each kind once in an interval."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

INTERVAL_SECONDS = 60.0
MAX_KINDS = 1_000


@dataclass(slots=True)
class _Kind:
    due: float
    unsaid: int = 0


class LogInterval:
    """Counts events, and says when a line about them is due."""

    def __init__(self, seconds: float = INTERVAL_SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._kinds: dict[str, _Kind] = {}

    def due(self, kind: str) -> int:
        """Count an event. Return how many there were since the last line, or 0 if no line is due yet."""
        now = self._clock()
        if len(self._kinds) >= MAX_KINDS:
            self._kinds = {name: it for name, it in self._kinds.items() if it.due > now}
        known = self._kinds.setdefault(kind, _Kind(now))
        known.unsaid += 1
        if now < known.due:
            return 0
        happened, known.unsaid, known.due = known.unsaid, 0, now + self._seconds
        return happened
