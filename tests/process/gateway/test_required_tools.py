"""Required tools in band: what a client says it needs in `_meta` of `tools/list`, and what it is answered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp.client.extension import advertise
from mcp_types import INVALID_PARAMS

from support.commands import callability
from support.gateway_in_process import client_of
from support.gateways import READ, SEND, held_back, shelf, write_config
from support.waiting import becomes

NAME = "app.mcpproxy/required-tools"
MISTAKES: list[Any] = [
    "files:read_file",
    {},
    {"tools": []},
    {"tools": [{"id": f"files:tool-{number}"} for number in range(51)]},
    {"tools": [{"id": ""}]},
    {"tools": [{"id": "files:read_file", "pin_hash": "sha256/v1:00"}]},
    {"tools": [{"id": "files:read_file"}], "wait_ms": 5},
    {"tools": [{"id": "files:read_file"}], "profile": "all"},
    {"tools": [{"id": "files:read_file"}], "policy": {"read_only_only": "yes"}},
    {"tools": [{"id": "files:read_file"}], "policy": {"exclude_all": True}},
]
REASONS = {
    **dict.fromkeys(("server_initializing", "server_unhealthy"), True),
    **dict.fromkeys(("server_disabled", "server_quarantined", "tool_pending_approval", "tool_changed"), False),
    **dict.fromkeys(("tool_blocked_by_user", "oauth_required", "tool_denied_by_config"), False),
    **dict.fromkeys(("missing_annotation", "policy_filtered", "not_found"), False),
}
"""The reasons that the extension knows, and whether each is retryable."""
ACTIONS = {"login", "restart", "enable", "approve", "view_logs", "set_secret", "configure"}


def _config(directory: Path) -> Path:
    """Write a config with a tool for each reason but one."""
    hinted = {"name": "list_files", "description": "Lists.", "annotations": {"readOnlyHint": True}}
    writing = {"name": "write_file", "description": "Writes.", "annotations": {"readOnlyHint": False}}
    task = {"name": "run_report", "description": "Runs.", "execution": {"taskSupport": "required"}}
    tools: list[dict[str, Any]] = [READ, hinted, writing, task]
    tools += [{"name": name} for name in ("drop", "tag", "merge", "reset")]
    (directory / "approvals.json").write_text(
        json.dumps(
            {
                "files": {
                    "tag": {"status": "pending"},
                    "merge": {"sha256": f"v2:{'0' * 64}"},
                    "reset": {"disabled": True},
                }
            }
        )
    )
    servers = {
        "files": shelf(directory, "files", *tools, disabled_tools=["drop"]),
        "held": shelf(directory, "held", SEND, quarantined=True),
        "off": shelf(directory, "off", SEND, enabled=False),
        "secret": shelf(directory, "secret", SEND),
        "down": {"command": "/nowhere/to/be/found"},
        "slow": held_back(directory, shelf(directory, "slow", SEND)),
    }
    extra = shelf(directory, "extra", SEND)
    agents = {"ci": {"servers": ["files", "held", "off", "down", "slow", "extra"]}}
    return write_config(directory, servers, catalog={"extra": extra}, approvals="approvals.json", agents=agents)


def _is_valid(facet: dict[str, Any]) -> bool:
    """Say whether an answer has the form of the extension, version 1."""
    assert facet.keys() == {"verdict", "checked_at", "tools"}
    assert datetime.fromisoformat(facet["checked_at"]).tzinfo is not None
    for each in facet["tools"]:
        if each["status"] == "ready":
            assert each.keys() == {"id", "status"}
            continue
        assert each["status"] == "unavailable"
        assert each["retryable"] is REASONS[each["reason"]]
        assert each.get("action") in {None, *ACTIONS}
        optional = {"action", "detail", "remediation"} | ({"did_you_mean"} if each["reason"] == "not_found" else set())
        assert each.keys() - {"id", "status", "reason", "retryable"} <= optional
        assert all(isinstance(each.get(key, ""), str) for key in ("id", "detail", "remediation"))
        assert len(each.get("did_you_mean", ())) <= 3
    return True


async def _facet(client: Client, rider: Any) -> dict[str, Any] | None:
    meta: Any = {NAME: rider}
    listed = await client.list_tools(meta=meta, cache_mode="refresh")
    assert [tool.name for tool in listed.tools][:2] == ["retrieve_tools", "call_tool"]
    facet = (listed.meta or {}).get(NAME)
    assert facet is None or _is_valid(facet)
    return facet


def _ids(*ids: str) -> dict[str, Any]:
    return {"tools": [{"id": each} for each in ids]}


def _verdict(client: Client, *ids: str) -> Callable[[], Awaitable[str]]:
    """Return a function that returns the verdict about some tools, which waits for no server."""

    async def look() -> str:
        facet = await _facet(client, _ids(*ids))
        assert facet
        return str(facet["verdict"])

    return look


def test_each_reason_is_given_for_what_it_stands_for(tmp_path: Path) -> None:
    """The worst one is the verdict; an id that is named twice is answered once."""

    async def story() -> None:
        async with client_of(_config(tmp_path), "--agent", "ci") as client:
            expected = {
                "files:read_file": None,
                "files:drop": "tool_denied_by_config",
                "files:tag": "tool_pending_approval",
                "files:merge": "tool_changed",
                "files:reset": "tool_blocked_by_user",
                "files:run_report": "policy_filtered",
                "held:send_mail": "server_quarantined",
                "off:send_mail": "server_disabled",
                "extra:send_mail": "server_disabled",
                "down:any": "server_unhealthy",
                "slow:any": "server_initializing",
                "files:raed_file": "not_found",
                "no colon": "not_found",
            }
            wanted = _ids(*expected, " files:read_file ")

            async def reasons() -> dict[str, str | None]:
                return {each["id"]: each.get("reason") for each in (await _facet(client, wanted) or {})["tools"]}

            await becomes(reasons, expected)
            facet = await _facet(client, wanted)
            assert facet
            assert len(facet["tools"]) == len(expected)
            assert facet["verdict"] == "unknown_ids"
            near = next(each for each in facet["tools"] if each["id"] == "files:raed_file")
            assert near["did_you_mean"][0] == "files:read_file"
            for ids, verdict in (
                (["files:read_file"], "ready"),
                (["files:read_file", "slow:any"], "degraded_retryable"),
                (["files:drop", "slow:any"], "blocked"),
                (["files:drop", "files:nothing"], "unknown_ids"),
            ):
                assert (await _facet(client, _ids(*ids)) or {})["verdict"] == verdict

    asyncio.run(story())


def test_the_filters_of_a_client_read_the_annotations(tmp_path: Path) -> None:
    """A hint that is left out is missing, and one that says no is filtered."""

    async def story() -> None:
        async with client_of(_config(tmp_path), "--agent", "ci") as client:
            await becomes(_verdict(client, "files:read_file"), "ready")
            ids = _ids("files:list_files", "files:write_file", "files:read_file")
            facet = await _facet(client, {**ids, "policy": {"read_only_only": True, "exclude_destructive": False}})
            assert facet
            assert [each.get("reason") for each in facet["tools"]] == [None, "policy_filtered", "missing_annotation"]

    asyncio.run(story())


def test_a_tool_out_of_scope_is_answered_to_the_byte_as_one_that_does_not_exist(tmp_path: Path) -> None:
    """In band and by the command: neither the server nor its tools can be found out (FR-007)."""
    config, other = _config(tmp_path), tmp_path / "other"
    other.mkdir()
    without = json.loads(config.read_text())
    del without["mcpServers"]["secret"]
    (other / "gateway.json").write_text(json.dumps(without | {"approvals": str(tmp_path / "approvals.json")}))

    async def story(path: Path) -> list[Any]:
        async with client_of(path, "--agent", "ci") as client:
            await becomes(_verdict(client, "files:read_file"), "ready")
            return [(await _facet(client, _ids(each)) or {})["tools"] for each in ("secret:send_mail", "secret:x")]

    def command(path: Path) -> tuple[int, Any]:
        done = callability("preflight", "secret:send_mail", "--agent", "ci", "--config", str(path), "--files", "--json")
        return done.returncode, json.loads(done.stdout)["tools"]

    assert asyncio.run(story(config)) == asyncio.run(story(other / "gateway.json"))
    assert command(config) == command(other / "gateway.json")


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_what_is_malformed_is_refused_if_the_extension_was_declared_and_else_ignored(mode: str, tmp_path: Path) -> None:
    """Both revisions of MCP advertise it, each in its own place."""
    config = write_config(tmp_path, {"files": shelf(tmp_path, "files", READ)})

    async def story() -> None:
        async with client_of(config, mode=mode) as plain:
            capabilities = plain.server_capabilities
            advertised = capabilities.extensions if mode == "auto" else capabilities.experimental
            assert (advertised or {})[NAME] == {"version": 1, "max_tools": 50}
            for mistake in MISTAKES:
                assert await _facet(plain, mistake) is None
            assert NAME not in ((await plain.list_tools(cache_mode="refresh")).meta or {})
        async with client_of(config, mode=mode, extensions=[advertise(NAME, {"version": 1})]) as declaring:
            for mistake in MISTAKES:
                with pytest.raises(MCPError) as refused:
                    await _facet(declaring, mistake)
                assert refused.value.error.code == INVALID_PARAMS
                assert refused.value.error.message.startswith(f"`{NAME}` is malformed: ")
            await becomes(_verdict(declaring, "files:read_file"), "ready")

    asyncio.run(story())
