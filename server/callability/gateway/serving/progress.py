"""Passes the progress of a call on from the upstream to the agent that requested it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.shared.dispatcher import ProgressFnT


@asynccontextmanager
async def progress_of(context: ServerRequestContext[Any], *, wanted: bool) -> AsyncIterator[ProgressFnT | None]:
    """Yield what takes the progress of a call, or None if the agent wants none.

    Progress is passed on in order; what comes before the answer is passed on before it, and nothing after it.
    """
    if not wanted:
        yield None
        return
    turn, answered = asyncio.Lock(), False

    async def report(progress: float, total: float | None, message: str | None) -> None:
        async with turn:
            if not answered:
                await context.session.report_progress(progress, total, message)

    try:
        yield report
    finally:
        async with turn:
            answered = True
