"""A log line about each call of an upstream's tool, for debugging."""

from __future__ import annotations

import asyncio
import logging
from itertools import count
from typing import Any

import pytest
from mcp_types import CallToolResult

from callability.adapter import error_result, tool_result
from callability.gateway.observability import CallResult, log_call


def _line(
    answer: CallResult | Exception, caplog: pytest.LogCaptureFixture, agent: str = "clerk", tool: str = "t"
) -> str:
    """Return the line about a call that takes a second and ends with an answer or an error."""

    async def answering() -> CallResult:
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def story() -> None:
        seconds = map(float, count())
        assert await log_call(agent, "s", tool, answering(), lambda: next(seconds)) is answer

    caplog.clear()
    asyncio.run(story())
    [line] = caplog.messages
    return line


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (CallToolResult(content=[]), "answered"),
        (CallToolResult(content=[], is_error=True), "error"),
        (CallToolResult(content=[], structured_content={"status": "pending_approval"}), "answered"),
        (tool_result({"status": "pending_approval"}, text="x", is_error=True), "refused as pending_approval"),
        (error_result("Not done: server `s` exited."), "error"),
    ],
)
def test_a_line_says_who_called_what_and_what_came_of_it(
    answer: CallToolResult | dict[str, Any], outcome: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A status is the gateway's own word: a status in an upstream's answer does not count."""
    caplog.set_level(logging.DEBUG, "callability.gateway.observability")
    assert _line(answer, caplog) == f"agent `clerk` called `t` of `s`: {outcome} in 1000.0 ms"


def test_a_caller_that_is_not_identified_is_an_agent(caplog: pytest.LogCaptureFixture) -> None:
    """And a name that an agent made up cannot break the line."""
    caplog.set_level(logging.DEBUG, "callability.gateway.observability")
    line = _line(error_result("x"), caplog, agent="", tool="a\nb")
    assert line == "an agent called `a\\u000ab` of `s`: error in 1000.0 ms"


def test_a_call_that_is_not_answered_is_logged_too(caplog: pytest.LogCaptureFixture) -> None:
    """It was cancelled, or the policy could not be asked."""
    caplog.set_level(logging.DEBUG, "callability.gateway.observability")
    with pytest.raises(LookupError):
        _line(LookupError("secret"), caplog)
    assert caplog.messages == ["agent `clerk` called `t` of `s`: not answered in 1000.0 ms"]


def test_at_any_higher_level_there_is_no_line(caplog: pytest.LogCaptureFixture) -> None:
    """Calls are frequent."""
    caplog.set_level(logging.INFO, "callability.gateway.observability")
    with pytest.raises(ValueError, match="not enough values"):
        _line(CallToolResult(content=[]), caplog)
