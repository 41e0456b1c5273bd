"""Agents that stop reading what the gateway sends them: they take no memory without a limit, and disturb no others."""

from __future__ import annotations

import logging
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from callability.gateway.serving import mcp_server
from support.catalogs import MODES, agent, gateway, until
from support.checkout import UPSTREAMS
from support.gateways import write_config
from support.silent_agent import SilentAgent, silent_agent

pytestmark = pytest.mark.anyio

GATE = {"command": sys.executable, "args": [str(UPSTREAMS / "gate.py")], "enabled_tools": ["flood"]}
REPORTS = 1_000


@pytest.fixture
def anyio_backend() -> str:
    """The gateway runs on asyncio."""
    return "asyncio"


async def _flooded(it: SilentAgent, log: pytest.LogCaptureFixture) -> None:
    """Let an agent call a tool that reports progress very often, and return when the upstream has answered."""
    log.set_level(logging.DEBUG, "callability.gateway.observability")
    params = {"name": "call_tool", "arguments": {"name": "it:flood", "arguments": {"times": REPORTS}}}
    await it.send("tools/call", {**params, "_meta": {"progressToken": "of the agent"}}, id="call")
    await until(lambda: "an agent called `flood` of `it`: answered" in log.text)


async def test_an_agent_that_reads_again_gets_the_latest_progress_and_not_all_of_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In order, and then the answer."""
    monkeypatch.setattr(mcp_server, "DELIVERY_SECONDS", 600)
    heard: list[float] = []
    async with gateway(tmp_path, {}, servers={"it": GATE}) as router, silent_agent(router) as it:
        await _flooded(it, caplog)
        while "result" not in (message := await it.read()):
            heard.append(message["params"]["progress"])
    # The first was on its way.
    assert heard == [0, *range(REPORTS - mcp_server.MAX_WAITING, REPORTS)]
    assert message["id"] == "call"


async def test_a_long_message_of_progress_waits_only_if_it_is_the_latest(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The earlier ones are dropped if the messages are too long together."""
    monkeypatch.setattr(mcp_server, "DELIVERY_SECONDS", 600)
    monkeypatch.setattr(mcp_server, "MAX_WAITING_CHARACTERS", 0)
    heard: list[float] = []
    async with gateway(tmp_path, {}, servers={"it": GATE}) as router, silent_agent(router) as it:
        await _flooded(it, caplog)
        while "result" not in (message := await it.read()):
            heard.append(message["params"]["progress"])
    assert heard == [0, REPORTS - 1]


async def test_a_call_of_an_agent_that_does_not_read_ends(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer waits for its progress no longer than a time, and no progress comes after it."""
    monkeypatch.setattr(mcp_server, "DELIVERY_SECONDS", 0.01)
    read: list[dict[str, Any]] = []
    async with gateway(tmp_path, {}, servers={"it": GATE}) as router, silent_agent(router) as it:
        await _flooded(it, caplog)
        await until(lambda: it.unread == 2)
        read = [await it.read(), await it.read()]
        await it.send("ping", id="later")
        assert (await it.read())["id"] == "later"
    assert ("params" in read[0], read[1]["id"]) == (True, "call")


async def test_a_session_that_does_not_read_holds_up_no_notification_of_others(tmp_path: Path) -> None:
    """It hears of all changes until it reads by one notification, and of those since then by another."""
    catalogs: list[dict[str, Any]] = [{"greeter": {"command": "true"}}, {}]
    async with AsyncExitStack() as stack:
        router = await stack.enter_async_context(gateway(tmp_path, {}))
        silent = await stack.enter_async_context(silent_agent(router))
        others = [await stack.enter_async_context(agent(router, mode)) for mode in MODES]
        for number in range(4):
            write_config(tmp_path, {}, catalog=catalogs[number % 2])
            await until(lambda: all(it.heard > number for it in others))  # noqa: B023 - it is awaited at once
        assert silent.unread == 1
        methods = [(await silent.read())["method"] for _ in range(2)]
        await silent.send("ping", id="later")
        assert (await silent.read())["id"] == "later"
    assert methods == ["notifications/tools/list_changed"] * 2
