"""Turns of calls: a long call lets others go on."""

from __future__ import annotations

import asyncio
from time import perf_counter

AT_ONCE = 16
"""Tools that are decided between two looks at the clock."""
KEPT_AT_ONCE = 16
"""Servers with kept results that are answered between two looks at the clock."""
TURN = 0.0002
"""Seconds after which other callers get a turn."""


class Turn:
    """How long one call has kept the others waiting."""

    def __init__(self) -> None:
        self._started = perf_counter()

    async def others(self) -> None:
        """Let other calls go on, if this one has had its time."""
        if perf_counter() - self._started >= TURN:
            await asyncio.sleep(0)
            self._started = perf_counter()
