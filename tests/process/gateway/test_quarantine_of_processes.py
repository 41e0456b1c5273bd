"""The text of an upstream process about a tool reaches no agent before a person has reviewed it (A.3)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from support.gateways import connected, shelf, write_config
from support.held_back import HOLDS, MARKED, ODD_NAME, POISON, poisoned_tools


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_no_answer_of_a_real_gateway_holds_what_is_held_back(transport: str, tmp_path: Path) -> None:
    """Over MCP, for each kind of hold (fault 6); the full text appears when each hold has ended."""
    holds = {f"held{number}": hold for number, hold in enumerate(list(HOLDS.values())[:3])}

    async def answers(client: Client) -> list[str]:
        queries = ("burn file", "zebra", *MARKED, POISON["description"], ODD_NAME, "held")
        calls: list[tuple[str, dict[str, Any]]] = [("upstream_servers", {})]
        calls += [
            ("retrieve_tools", {"query": each, "include_disabled": flag}) for each in queries for flag in (True, False)
        ]
        calls += [("call_tool", {"name": f"{name}:burn_file"}) for name in holds]
        return [(await client.call_tool(tool, arguments)).model_dump_json() for tool, arguments in calls]

    async def story(directory: Path, *, over: bool) -> list[str]:
        records = {name: dict(hold.approved if over else hold.records) for name, hold in holds.items()}
        (directory / "approvals.json").write_text(json.dumps(records))
        servers = {
            name: shelf(directory, name, *poisoned_tools(POISON), **(hold.released if over else hold.keys))
            for name, hold in holds.items()
        }
        async with connected(transport, write_config(directory, servers, approvals="approvals.json")) as client:
            return await answers(client)

    (tmp_path / "held").mkdir()
    (tmp_path / "released").mkdir()
    held = asyncio.run(story(tmp_path / "held", over=False))
    assert [answer for answer in held if any(mark in answer for mark in (*MARKED, "zebraN", "IGNORE"))] == []
    released = "".join(asyncio.run(story(tmp_path / "released", over=True)))
    assert all(mark in released for mark in ("zebra0", "zebra2", "zebra3", "zebraN", "burn_file was called"))
