"""The example of a proxy, in front of real servers, asked by a real client over stdio."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from callability.adapter import unavailable
from support.checkout import ROOT
from support.policies import write_policy
from support.real_servers import pypi_servers
from support.running import serving

EXAMPLE = ROOT / "examples/proxy.py"
READS_EVERY_GROUP = """\
labels:
  server: {environment: [production, test]}
  tool: {kind: [report]}
  agent: {team: [core]}
rules:
  - {id: label, when: {server.label.environment: test, tool.label.kind: report}, status: disabled_by_config}
  - {id: hint, when: {server.label.environment: production, annotations.read_only: false}, status: disabled_by_config}
  - {id: kind, when: {tool.label.kind: report, annotations.read_only: false}, status: disabled_by_config}
  - {id: agent, when: {any: [{agent.name: "other-*"}, {agent.label.team: core}]}, status: disabled_by_config}
  - {id: denied, when: {tool.config_denied: true}, status: disabled_by_config}
  - id: lock
    when: {any: [{server.quarantined: true}, {server.enabled: false}, {approval.status: [pending, changed]}]}
    status: disabled_unknown
  - {id: open, status: callable}
words:
  disabled_by_config: {remediation: Ask., rejection: Ask.}
  disabled_unknown: {remediation: Ask., rejection: Ask.}
"""
Conversation = Callable[[Client], Awaitable[Any]]


def _config(directory: Path) -> dict[str, Any]:
    """The config beside the example, for the servers of this machine, with one more that does not start."""
    config: dict[str, Any] = json.loads((ROOT / "examples/proxy.json").read_text())
    for name, start in pypi_servers(directory).items():
        config["servers"][name]["start"] = start
    config["servers"]["gone"] = config["servers"]["git"] | {"start": {"command": "no-such-command"}, "approvals": {}}
    state = {"enabled": False, "quarantined": False}
    config["servers"]["off"] = config["servers"]["git"] | {"state": state, "approvals": {}}
    return config


def _answered(config: Mapping[str, Any], address: str, directory: Path, ask: Conversation) -> Any:
    """Run the proxy, and ask it by a client of the SDK."""
    (directory / "proxy.json").write_text(json.dumps(config))
    command = [str(EXAMPLE), str(directory / "proxy.json"), address]

    async def talked() -> Any:
        async with Client(StdioServerParameters(command=sys.executable, args=command)) as client:
            return await ask(client)

    async def limited() -> Any:
        async with asyncio.timeout(120):
            return await talked()

    return asyncio.run(limited())


async def _found(client: Client, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool("retrieve_tools", arguments)
    assert not result.is_error, result
    assert json.loads(result.content[0].text) == result.structured_content  # type: ignore[union-attr]
    return result.structured_content or {}


async def _called(client: Client, name: str, **arguments: Any) -> tuple[bool, str]:
    result = await client.call_tool("call_tool", {"name": name, "arguments": arguments})
    return bool(result.is_error), result.content[0].text  # type: ignore[union-attr]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What one proxy answers to one client, by the name of the question."""
    directory = tmp_path_factory.mktemp("proxy")

    async def ask(client: Client) -> dict[str, Any]:
        return {
            "tools": (await client.list_tools()).tools,
            "time": await _found(client, query="current time", limit=1),
            "locked": await _found(client, query="convert", include_disabled=True),
            "reset": await _found(client, query="git_reset git_commit", limit=2, include_disabled=True),
            "notice": await _found(client, query="reset"),
            "gone": await _found(client, query="zzz"),
            "limit": await client.call_tool("retrieve_tools", {"query": "time", "limit": 101}),
            "empty": await client.call_tool("retrieve_tools", {"query": " ."}),
            "callable": await _called(client, "time:get_current_time", timezone="UTC"),
            "denied": await client.call_tool("call_tool", {"name": "time:convert_time", "arguments": {}}),
            "disabled": await _called(client, "git:git_reset"),
            "unknown": await _called(client, "git:git_statu"),
            "near a locked one": await _called(client, "git:git_rese"),
            "no server": await _called(client, "nothing"),
            "off": await client.call_tool("call_tool", {"name": "off:git_status", "arguments": {}}),
        }

    with serving() as address:
        return dict(_answered(_config(directory), address, directory, ask))


def test_it_is_short_enough_to_paste() -> None:
    """Under 120 lines."""
    assert len(EXAMPLE.read_text().splitlines()) < 120


def test_its_own_tools_are_described(answers: dict[str, Any]) -> None:
    """FR-014: with the parameter that shows locked tools."""
    find, call = answers["tools"]
    assert (find.name, call.name) == ("retrieve_tools", "call_tool")
    assert "`include_disabled`" in find.description
    assert find.input_schema["properties"]["include_disabled"]["default"] is False


def test_a_query_finds_what_can_be_called(answers: dict[str, Any]) -> None:
    """With its text, and without anything about locked tools."""
    assert list(answers["time"]) == ["tools", "total"]
    [tool] = answers["time"]["tools"]
    assert (tool["name"], tool["server"]) == ("time:get_current_time", "time")
    assert tool["inputSchema"]["required"] == ["timezone"]


def test_locked_tools_are_shown_on_request(answers: dict[str, Any]) -> None:
    """One that the operator denies, one that the user disabled, and one that waits for a review."""
    [denied] = answers["locked"]["disabled"]
    assert (denied["name"], denied["status"]) == ("time:convert_time", "disabled_by_config")
    assert "description" in denied
    assert "edit proxy.json" in answers["locked"]["remediation"]["disabled_by_config"]
    assert {each["name"]: each["status"] for each in answers["reset"]["disabled"]} == {
        "git:git_reset": "disabled_by_user",
        "git:git_commit": "pending_approval",
    }
    assert "SERVER:TOOL" in answers["reset"]["remediation"]["disabled_by_user"]


def test_what_is_not_there_is_explained(answers: dict[str, Any]) -> None:
    """Locked tools by their number, and a server that did not start by its name."""
    assert answers["notice"]["notice"].startswith("1 matching tool exists but cannot be called; ")
    assert '"gone"' in answers["gone"]["notice"]


def test_wrong_arguments_are_errors_that_say_what_is_wanted(answers: dict[str, Any]) -> None:
    """In the words of the adapter."""
    assert answers["limit"].is_error
    assert "from 1 to 100, and is 101" in answers["limit"].content[0].text
    assert "needs at least one word" in answers["empty"].content[0].text


def test_a_callable_tool_is_called(answers: dict[str, Any]) -> None:
    """By its server."""
    error, text = answers["callable"]
    assert not error
    assert json.loads(text)["timezone"] == "UTC"


def test_a_locked_tool_is_not_called_and_the_rejection_names_the_switch(answers: dict[str, Any]) -> None:
    """With the names of server and tool in the proxy's own phrase."""
    assert answers["denied"].is_error
    assert answers["denied"].structured_content["status"] == "disabled_by_config"
    error, text = answers["disabled"]
    assert error
    assert "ask the user to set `disabled` of git:git_reset to false in proxy.json." in text


def test_an_unknown_tool_is_answered_with_near_names_that_can_be_called(answers: dict[str, Any]) -> None:
    """And never with a locked one."""
    assert '"git:git_status"' in answers["unknown"][1]
    assert '"git:git_reset"' not in answers["near a locked one"][1]
    assert answers["no server"] == (True, 'Not called: there is no tool "nothing". Find tools with `retrieve_tools`.')


def test_a_tool_of_a_disabled_server_that_was_never_listed_is_rejected_by_that_status(answers: dict[str, Any]) -> None:
    """The user learns which switch to press, and not that there is no tool."""
    assert answers["off"].is_error
    assert answers["off"].structured_content["status"] == "server_disabled"


def test_a_policy_that_reads_every_group_holds_back_no_tool(tmp_path: Path) -> None:
    """The facts are complete: a tool that reaches a rule about a group that is left out is undetermined."""
    config = _config(tmp_path)
    config["servers"] = {"time": config["servers"]["time"] | {"labels": {"environment": "production"}}}

    async def ask(client: Client) -> dict[str, Any]:
        return await _found(client, query="time", include_disabled=True)

    with serving("--policy", str(write_policy(tmp_path, READS_EVERY_GROUP))) as address:
        found = _answered(config, address, tmp_path, ask)
    assert [each["name"] for each in found["tools"]] == ["time:get_current_time"]
    assert [each["status"] for each in found["disabled"]] == ["disabled_by_config"]


def test_without_the_service_nothing_is_named_and_nothing_called(tmp_path: Path) -> None:
    """A service that has stopped is out of reach; the proxy starts all the same."""
    with serving() as address:
        pass

    async def ask(client: Client) -> tuple[Any, Any]:
        found = await client.call_tool("retrieve_tools", {"query": "time"})
        return found, await client.call_tool("call_tool", {"name": "time:get_current_time", "arguments": {}})

    for result in _answered(_config(tmp_path), address, tmp_path, ask):
        text = result.content[0].text
        assert result.is_error
        assert text.startswith("Not done: ")
        assert text.endswith(unavailable("x")["content"][0]["text"].partition(".")[2])
        assert "time:" not in text
