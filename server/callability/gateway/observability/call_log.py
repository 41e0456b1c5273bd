"""The log of calls of upstream tools: who called what, and with which outcome."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Any

from mcp_types import CallToolResult

from callability import request_context
from callability.finding import shown
from callability.log_output import fields

CallResult = dict[str, Any] | CallToolResult
"""The gateway's own answer as JSON, or the upstream's."""
_logger = logging.getLogger(__name__)


async def logged(
    agent: str, server: str, tool: str, answering: Awaitable[CallResult], clock: Callable[[], float] = perf_counter
) -> CallResult:
    """Return the answer of a call, and log a line without the arguments and the answer.

    Args:
        agent: who called; empty if the agent has no name.
        server: the server of the tool.
        tool: the tool as the agent named it.
        answering: what comes to the answer.
        clock: returns the time in seconds.
    """
    request_context.note(**({"agent": agent} if agent else {}), server=server, tool=tool)
    outcome, started = "not answered", clock()
    try:
        answer = await answering
        outcome = _outcome(answer)
        return answer
    finally:
        who = f"agent {shown(agent)}" if agent else "an agent"
        taken = 1000 * (clock() - started)
        about = fields(agent=agent, server=server, tool=tool, outcome=outcome, milliseconds=round(taken, 3))
        words = "%s called %s of `%s`: %s in %.1f ms"
        _logger.debug(words, who, shown(tool), server, outcome, taken, extra=about)


def _outcome(answer: CallResult) -> str:
    """Return how a call ended; only the gateway's own answers have a status, whatever an upstream puts into its own."""
    if isinstance(answer, CallToolResult):
        return "error" if answer.is_error else "answered"
    status = (answer.get("structuredContent") or {}).get("status")
    return f"refused as {status}" if status else "error"
