"""The signals that end a gateway: the first asks it to finish, a later one to end at once."""

from __future__ import annotations

import asyncio

REPEAT_SECONDS = 0.25
"""A signal sooner after the first one is the same one, sent twice: a terminal and a parent process both send it."""


class Stopping:
    """What signals request: the first one to end, and another one to end at once."""

    def __init__(self) -> None:
        self.requested = asyncio.Event()
        self.at_once = asyncio.Event()
        self._first: float | None = None

    def signal(self) -> None:
        """Take a signal."""
        now = asyncio.get_running_loop().time()
        if self._first is None:
            self._first = now
            self.requested.set()
        elif now - self._first >= REPEAT_SECONDS:
            self.at_once.set()
