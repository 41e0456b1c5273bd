"""An upstream that announces changes of its tools again and again: discovery does not wait for it."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp_types import CallToolResult

from callability.gateway.config.config import load_config
from callability.gateway.runtime.runtime import GatewayOptions, open_gateway
from callability.gateway.tools import discovery
from callability.gateway.tools.dispatch import Gateway
from callability.gateway.upstream import listing
from support.checkout import UPSTREAMS
from support.gateways import bad, shelf, text_of, write_config
from support.local_policy import local_policy

pytestmark = pytest.mark.anyio

READ = {"name": "read", "description": "Reads a file."}
PATIENCE = 120


@pytest.fixture
def anyio_backend() -> str:
    """The gateway runs on asyncio."""
    return "asyncio"


@pytest.fixture(autouse=True)
def numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A discovery that waits for the upstream waits longer than a test; a series is short."""
    monkeypatch.setattr(discovery, "SETTLE_SECONDS", 10 * PATIENCE)
    monkeypatch.setattr(listing, "RESTLESS", 3)


async def _structured(gateway: Gateway, tool: str, arguments: dict[str, str]) -> dict[str, Any]:
    answer = await gateway.answer(tool, arguments)
    assert isinstance(answer, CallToolResult)
    structured: dict[str, Any] = answer.structured_content or json.loads(text_of(answer))
    return structured


async def _note(gateway: Gateway) -> str | None:
    answer = await _structured(gateway, "upstream_servers", {"operation": "get", "name": "it"})
    note: str | None = answer["server"].get("note")
    return note


async def _until_its_note(gateway: Gateway, *, is_there: bool) -> None:
    while (await _note(gateway) is not None) is not is_there:  # noqa: ASYNC110 - a process causes it
        await asyncio.sleep(0.05)


async def _found(gateway: Gateway) -> list[str]:
    answer = await _structured(gateway, "retrieve_tools", {"query": "read"})
    return [tool["name"] for tool in answer["tools"]]


async def test_discovery_does_not_wait_for_an_upstream_that_announces_again_and_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Although it has announced a change and does not list its tools; its entry has a note, and the log one line."""
    servers = {"files": shelf(tmp_path, "files", READ), "it": bad("announces a series")}
    config = load_config(write_config(tmp_path, servers, deadlines={"open_seconds": 10 * PATIENCE}))
    caplog.set_level(logging.INFO)
    async with open_gateway(GatewayOptions(config, None, local_policy())) as gateways, asyncio.timeout(PATIENCE):
        gateway = gateways.gateway_for_request("")
        await _until_its_note(gateway, is_there=True)
        for _ in range(20):
            assert await _found(gateway) == ["files:read"]
        assert "keeps announcing changes of its tools" in str(await _note(gateway))
        listed = await _structured(gateway, "upstream_servers", {})
        assert ["note" in entry for entry in listed["servers"]] == [False, True]
    lines = [line for line in caplog.messages if "again and again" in line]
    assert len(lines) == 1


async def test_an_upstream_that_calms_down_is_treated_as_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tools can be called all the time: a call reads the announced changes first."""
    monkeypatch.setattr(listing, "QUIET_SECONDS", 0.2)
    monkeypatch.setattr(listing, "LONGEST_PAUSE", 0.3)
    config = load_config(write_config(tmp_path, {"it": bad("announces a series until it is stopped")}))
    async with open_gateway(GatewayOptions(config, None, local_policy())) as gateways, asyncio.timeout(PATIENCE):
        gateway = gateways.gateway_for_request("")
        await _until_its_note(gateway, is_there=True)
        called = await gateway.answer("call_tool", {"name": "it:calm"})
        assert "calm" in called.model_dump_json()
        await _until_its_note(gateway, is_there=False)
        assert await _found(gateway) == []


async def test_a_stream_of_changes_that_ends_again_and_again_announces_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The tools are read again after each, since what changed meanwhile was not announced, but the server is calm."""
    monkeypatch.setattr(listing, "LISTEN_AGAIN_SECONDS", 0.05)
    changing = {"command": sys.executable, "args": [str(UPSTREAMS / "changing.py"), "2026", "brief"]}
    config = load_config(write_config(tmp_path, {"it": changing}))
    caplog.set_level(logging.INFO)
    async with open_gateway(GatewayOptions(config, None, local_policy())) as gateways, asyncio.timeout(PATIENCE):
        gateway = gateways.gateway_for_request("")
        streams = 0
        while streams < 3 * listing.RESTLESS:
            found = await _structured(gateway, "retrieve_tools", {"query": "counted streams"})
            counts = [re.findall(r"Counted (\d+) streams", str(tool)) for tool in found["tools"]]
            streams = max(int(count) for count in itertools.chain.from_iterable([["0"], *counts]))
            await asyncio.sleep(0.02)
        assert await _note(gateway) is None
    assert not [line for line in caplog.messages if "again and again" in line]
