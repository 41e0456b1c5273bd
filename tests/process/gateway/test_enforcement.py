"""Discovering a lock does not change it, and discovery leaves no trace."""

from __future__ import annotations

import asyncio
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client

from support.drawing import drawing
from support.gateway_in_process import http_gateway
from support.gateways import call, retrieve, shelf, write_config
from support.stand_ins import Scene, Shelf, scene

TOOLS = tuple(
    {"name": name, "description": f"{verb} a file on the disk."}
    for name, verb in (("burn", "Burns"), ("delete", "Deletes"), ("format", "Formats"), ("move", "Moves"))
)
ENTRIES: dict[str, dict[str, Any]] = {
    "files": {"disabled_tools": ["format"], "enabled": True},
    "held": {"quarantined": True},
    "off": {"enabled": False, "disabled_tools": ["burn"]},
}
RECORDS = {"files": {"delete": {"disabled": True}, "move": {"status": "pending"}, "burn": {"status": "changed"}}}
LOCKED = {
    "files:format": "disabled_by_config",
    "files:delete": "disabled_by_user",
    "files:move": "pending_approval",
    "files:burn": "pending_approval",
    "held:move": "server_quarantined",
    "off:burn": "server_disabled",
}


@pytest.fixture(scope="module")
def all_locked(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """A gateway with tools under each lock, and none that is callable."""
    return scene(tmp_path_factory.mktemp("locked"), ENTRIES, dict.fromkeys(ENTRIES, Shelf(TOOLS)), RECORDS)


@drawing(40)
@given(name=st.sampled_from(sorted(LOCKED)), times=st.integers(1, 3), flag=st.booleans())
def test_a_tool_that_was_seen_stays_as_locked_as_it_was(all_locked: Scene, name: str, times: int, flag: bool) -> None:
    """FR-011: the call is refused as before, to the byte, after any number of searches."""
    looks = [("retrieve_tools", {"query": "file move burn", "include_disabled": flag})] * times
    first, *_, last = asyncio.run(
        all_locked.answers([("call_tool", {"name": name}), *looks, ("call_tool", {"name": name})])
    )
    assert json.loads(first)["structured_content"]["status"] == LOCKED[name]
    assert first == last
    assert not any(upstream.called for upstream in all_locked.upstreams.values())


@pytest.mark.parametrize("name", LOCKED)
def test_existence_reason_and_remedy_are_one_request_away(all_locked: Scene, name: str) -> None:
    """SC-002: an empty answer leads there by its notice, and a refused call by its last sentence."""
    query = name.replace(":", " ")
    query_arguments = {"query": query, "limit": 100}
    empty, refused, found = asyncio.run(
        all_locked.answers(
            [
                ("retrieve_tools", query_arguments),
                ("call_tool", {"name": name}),
                ("retrieve_tools", {**query_arguments, "include_disabled": True}),
            ]
        )
    )
    assert "repeat with `include_disabled: true`" in json.loads(json.loads(empty)["content"][0]["text"])["notice"]
    assert "See `retrieve_tools` with `include_disabled: true`." in json.loads(refused)["content"][0]["text"]
    answer = json.loads(json.loads(found)["content"][0]["text"])
    [entry] = [entry for entry in answer["disabled"] if entry["name"] == name]
    assert entry["status"] == LOCKED[name]
    assert answer["remediation"][entry["status"]]


def test_a_tool_that_changed_after_its_approval_is_said_to_have_changed(all_locked: Scene) -> None:
    """A.5: and the change is to be compared first; a tool that nobody approved has other words."""
    changed, new = (
        json.loads(answer)["content"][0]["text"]
        for answer in asyncio.run(
            all_locked.answers([("call_tool", {"name": "files:burn"}), ("call_tool", {"name": "files:move"})])
        )
    )
    said = "This tool has changed since it was approved. Ask the user to compare the change first, then to run "
    assert said in changed
    assert 'Nobody has approved this tool yet. Tool "move" of server "files" needs review.' in new
    assert "changed" not in new


def _digests(directory: Path) -> dict[str, str]:
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in directory.rglob("*")
        if path.is_file() and path.name != "gateway.log"
    }


def test_requests_write_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FR-012: neither beside the gateway's files, nor in its working directory, nor in the home directory."""
    (tmp_path / "working").mkdir()
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path / "working")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "approvals.json").write_text(json.dumps(RECORDS))
    servers = {name: shelf(tmp_path, name, *TOOLS, **keys) for name, keys in ENTRIES.items()}
    config = write_config(tmp_path, servers, approvals="approvals.json")
    before = _digests(tmp_path)

    async def story(url: str) -> None:
        async with Client(url) as client:
            for flag in (True, False):
                await retrieve(client, "file", include_disabled=flag)
            for name in LOCKED:
                assert (await call(client, name)).is_error
            await client.call_tool("upstream_servers", {})

    with http_gateway(config) as url:
        asyncio.run(story(url))
    after = _digests(tmp_path)
    # What servers listed, for reports; no request writes it.
    after.pop("approvals.seen.json", None)
    assert after == before
