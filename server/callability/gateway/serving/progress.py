"""Passes the progress of a call on from the upstream to the agent that requested it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.shared.dispatcher import ProgressFnT

MAX_WAITING = 32
"""How many reports of a call wait for an agent that does not read; the oldest goes first."""
MAX_WAITING_CHARACTERS = 1_000_000
"""How many characters their messages have together; the latest report waits whatever its length."""
DELIVERY_SECONDS = 5.0
"""How long an answer waits for the reports before it."""

_Report = tuple[float, float | None, str | None]


@asynccontextmanager
async def progress_of(context: ServerRequestContext[Any], *, wanted: bool) -> AsyncIterator[ProgressFnT | None]:
    """Yield what takes the progress of a call, or None if the agent wants none.

    Progress is passed on in order; what comes before the answer is passed on before it, and nothing after it. An agent
    that reads more slowly than the upstream reports gets the latest reports only.
    """
    if not wanted:
        yield None
        return
    turn, waiting, answered = asyncio.Lock(), deque[_Report](), False

    async def report(progress: float, total: float | None, message: str | None) -> None:
        waiting.append((progress, total, message))
        _drop_oldest(waiting)
        # The library runs a task for each report: one of them sends, and the others must not pile up behind it.
        if turn.locked():
            return
        async with turn:
            while waiting and not answered:
                await context.session.report_progress(*waiting.popleft())

    try:
        yield report
    finally:
        with suppress(TimeoutError):
            async with asyncio.timeout(DELIVERY_SECONDS), turn:
                pass
        answered = True


def _drop_oldest(waiting: deque[_Report]) -> None:
    while len(waiting) > MAX_WAITING or (
        len(waiting) > 1 and sum(len(message or "") for _, _, message in waiting) > MAX_WAITING_CHARACTERS
    ):
        waiting.popleft()
