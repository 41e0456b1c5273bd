"""Limits how long a call may wait for its next progress, and how long it may take in all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mcp.shared.dispatcher import ProgressFnT


class CallDeadline:
    """Ends a call `seconds` after its start or its latest progress, and `most` seconds after its start."""

    def __init__(self, seconds: float, most: float) -> None:
        self.seconds = seconds
        self._most = max(seconds, most)
        self._timeout: asyncio.Timeout | None = None
        self._last = 0.0
        self._is_extended = False

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Run the call.

        Raises:
            TimeoutError: its time is over.
        """
        now = asyncio.get_running_loop().time()
        self._last = now + self._most
        try:
            async with asyncio.timeout_at(now + self.seconds) as self._timeout:
                yield
        finally:
            self._timeout = None

    def extended_by(self, report: ProgressFnT | None) -> ProgressFnT | None:
        """Return what takes the progress of the call and passes it on; None if the agent wants none."""
        if report is None:
            return None

        async def heard(progress: float, total: float | None, message: str | None) -> None:
            self._extend()
            await report(progress, total, message)

        return heard

    @property
    def words(self) -> str:
        """Words for the end of the time."""
        if not self._is_extended:
            return f"did not answer within {self.seconds:g} s"
        if asyncio.get_running_loop().time() >= self._last:
            return f"did not answer within {self._most:g} s, although it reported progress"
        return f"did not answer within {self.seconds:g} s of its latest progress"

    def _extend(self) -> None:
        if self._timeout is not None and not self._timeout.expired():
            self._is_extended = True
            self._timeout.reschedule(min(asyncio.get_running_loop().time() + self.seconds, self._last))
