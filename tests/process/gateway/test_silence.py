"""A child that is silent during a call: whether it hangs is found out without the call."""

from __future__ import annotations

import asyncio
import sys
from contextlib import AbstractAsyncContextManager

import pytest
from mcp_types import TextContent

from callability.gateway.upstream import connection
from callability.gateway.upstream.failure import UpstreamError
from callability.gateway.upstream.target import StdioTarget
from callability.gateway.upstream.upstream import Upstream
from support.checkout import UPSTREAMS
from support.connected_upstream import connected
from support.waiting import SECONDS, becomes

pytestmark = pytest.mark.anyio

LATE = "`it` did not answer within 1 s; the call may have been carried out"


@pytest.fixture
def anyio_backend() -> str:
    """The gateway runs on asyncio."""
    return "asyncio"


def _child() -> AbstractAsyncContextManager[Upstream]:
    """Connect a child that does as the name of the tool says; a call of it has a second."""
    target = StdioTarget(sys.executable, (str(UPSTREAMS / "bad_stdio.py"),))
    return connected(Upstream("it", target, open_seconds=SECONDS, call_seconds=1))


async def _ends_late(it: Upstream, tool: str) -> None:
    with pytest.raises(UpstreamError) as caught:
        await it.call(tool, {})
    assert str(caught.value) == LATE


async def _answer(it: Upstream, tool: str) -> str:
    (block,) = (await it.call(tool, {})).content
    assert isinstance(block, TextContent)
    return block.text


async def test_a_call_does_not_wait_for_the_ping_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has its error while the ping is under way, and the end of the connection ends the ping."""
    monkeypatch.setattr(connection, "PING_SECONDS", 100 * SECONDS)
    async with asyncio.timeout(SECONDS), _child() as it:
        await _ends_late(it, "hang")
        assert it.state == "connected"


async def test_a_child_that_answers_no_ping_is_ended_though_no_call_waits_for_it() -> None:
    """Its failure is that of the call, and all its calls have ended."""
    async with _child() as it:

        async def failure() -> str | None:
            return it.failure

        await asyncio.gather(_ends_late(it, "hang"), _ends_late(it, "hang"))
        await becomes(failure, "`it` did not answer within 1 s")


async def test_calls_that_end_together_share_a_ping() -> None:
    """The child has been quiet since they began, and answers it."""
    async with _child() as it:
        await asyncio.gather(*(_ends_late(it, "silence") for _ in range(5)))
        pings = await _answer(it, "pings")
        assert (pings, it.state) == ("1", "connected")


async def test_a_call_that_begins_during_a_ping_is_sent_to_the_next_child_if_this_one_hangs() -> None:
    """It would be lost with a child that hangs."""
    async with _child() as it:
        first = await _answer(it, "pid")
        await _ends_late(it, "hang")
        connection = await it.connect()
        assert not (await it.call("pid", {}, on=connection)).is_error
        assert await _answer(it, "pid") != first
