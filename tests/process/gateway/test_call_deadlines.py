"""How long a call may take: progress extends it, up to a maximum, and each server may have times of its own."""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp_types import CallToolResult

from callability.client import Client, PolicyUnavailable
from callability.gateway.policy_client import PolicyClient
from support.checkout import UPSTREAMS
from support.gateway_in_process import client_of
from support.gateways import call, over_stdio, retrieve, shelf, text_of, write_config
from support.waiting import loads

pytestmark = pytest.mark.anyio

GATE = {"command": sys.executable, "args": [str(UPSTREAMS / "gate.py")]}
PATIENT = 20
"""Longer than the time between two progress reports, even on a busy machine."""


@pytest.fixture
def anyio_backend() -> str:
    """The gateway runs on asyncio."""
    return "asyncio"


async def _reported(directory: Path, seconds: float, deadlines: dict[str, Any]) -> tuple[CallToolResult, int]:
    """Return the result of a call that reports progress for some seconds, and how often it did."""
    heard: list[float] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append(progress)

    async with over_stdio(write_config(directory, {"it": GATE}, deadlines=deadlines)) as client:
        arguments = {"name": "it:report", "arguments": {"seconds": seconds}}
        result = await client.call_tool("call_tool", arguments, progress_callback=hear)
    return result, len(heard)


async def test_progress_extends_the_time_of_a_call(tmp_path: Path) -> None:
    """The call takes longer than the server may be silent."""
    result, heard = await _reported(tmp_path, seconds=5, deadlines={"call_seconds": 4})
    assert (result.is_error, text_of(result), heard > 1) == (False, "reported", True)


async def test_progress_extends_the_time_of_a_call_up_to_a_maximum_only(tmp_path: Path) -> None:
    """The error says so."""
    deadlines = {"call_seconds": PATIENT, "call_max_seconds": PATIENT + 1}
    result, heard = await _reported(tmp_path, seconds=600, deadlines=deadlines)
    words = f"Not done: server `it` did not answer within {PATIENT + 1} s, although it reported progress;"
    assert (result.is_error, heard > 1) == (True, True)
    assert text_of(result) == f"{words} the call may have been carried out."


async def test_a_server_that_works_quietly_beyond_the_time_of_a_call_is_not_ended(tmp_path: Path) -> None:
    """It answers a ping, so the call alone fails."""
    config = write_config(tmp_path, {"it": GATE}, deadlines={"call_seconds": 1})
    async with client_of(config) as client:
        late = await call(client, "it:pass", waits=str(tmp_path / "waits"), until=str(tmp_path / "until"))
        assert "did not answer within 1 s" in text_of(late)
        # It waits for the ping.
        assert not (await call(client, "it:report", seconds=0)).is_error
        assert await loads(client, "it")() == [("connected", "available")]
    assert (tmp_path / "gateway.log").read_text().count("`it` is connected") == 1


async def test_a_server_has_deadlines_of_its_own_and_the_others_for_what_it_leaves_out(tmp_path: Path) -> None:
    """An edit of the times applies to later calls."""
    quick: dict[str, Any] = {**GATE, "deadlines": {"call_seconds": 1}}
    config = write_config(tmp_path, {"quick": quick, "slow": GATE}, deadlines={"call_seconds": 600})
    until = str(tmp_path / "until")
    async with client_of(config) as client:
        slow = asyncio.create_task(call(client, "slow:pass", waits=str(tmp_path / "slow"), until=until))
        late = await call(client, "quick:pass", waits=str(tmp_path / "quick"), until=until)
        assert "did not answer within 1 s" in text_of(late)
        assert not slow.done()
        await asyncio.to_thread((tmp_path / "until").touch)
        assert not (await slow).is_error


async def test_an_answer_too_long_for_a_line_over_stdio_fails_alone(tmp_path: Path) -> None:
    """Measured as it is written, with what JSON escapes; the session goes on."""
    limit, texts = 10 * 1024 * 1024 - 64 * 1024, {"x": 1, "ü": 2, "\x01": 6, "\\": 2}
    async with over_stdio(write_config(tmp_path, {"it": GATE})) as client:
        for text, bytes_each in texts.items():
            fits = await call(client, "it:fill", text=text, times=(limit - 2_000) // bytes_each)
            assert not fits.is_error, text
            longer = await call(client, "it:fill", text=text, times=limit // bytes_each + 1)
            assert longer.is_error, text
            assert text_of(longer).startswith("Not sent: the answer takes ")
            assert f"a line over stdio has at most {limit:,}." in text_of(longer)
            assert not (await call(client, "it:fill", text="x", times=1)).is_error
    assert (tmp_path / "gateway.log").read_text().count("is not sent: over stdio, a line has at most") == len(texts)


async def test_discovery_whose_answer_is_too_long_for_a_line_over_stdio_says_what_to_ask(tmp_path: Path) -> None:
    """With a smaller limit, the call gets an answer."""
    tools = [{"name": f"t{number}", "description": f"sheep {'x' * 200_000}"} for number in range(60)]
    async with over_stdio(write_config(tmp_path, {"big": shelf(tmp_path, "big", *tools)})) as client:
        longer = await client.call_tool("retrieve_tools", {"query": "sheep", "limit": 60, "schemas": "full"})
        assert (longer.is_error, "with a smaller `limit`" in text_of(longer)) == (True, True)
        assert (await retrieve(client, "sheep", limit=2))["total"] == 2


async def test_a_policy_service_that_is_silent_is_waited_for_as_long_as_is_said() -> None:
    """The start of a gateway waits for what the policy declares."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        async with Client.remote([address], attempt_seconds=120) as client:
            with pytest.raises(PolicyUnavailable) as caught:
                await PolicyClient(client).get_policy(0.1)
    assert caught.value.code == "DEADLINE_EXCEEDED"
