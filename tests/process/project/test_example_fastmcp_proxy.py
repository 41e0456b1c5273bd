"""The example of a FastMCP proxy, in front of real servers, asked by a real client over stdio."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from fastmcp import FastMCP
from fastmcp.tools import Tool
from mcp import Client, StdioServerParameters

import callability.client
from callability.adapter import unavailable
from callability.cli.own_policy import GivenPolicy
from support.bundles import bundle_of
from support.checkout import ROOT
from support.real_servers import pypi_servers
from support.running import serving

EXAMPLE = ROOT / "examples/fastmcp_proxy.py"
Conversation = Callable[[Client], Awaitable[Any]]


def _config(directory: Path) -> dict[str, Any]:
    """The config beside the example, for the servers of this machine, with one more that is disabled."""
    config: dict[str, Any] = json.loads((ROOT / "examples/proxy.json").read_text())
    for name, start in pypi_servers(directory).items():
        config["servers"][name]["start"] = start
    config["servers"]["off"] = config["servers"]["git"] | {"state": {"enabled": False, "quarantined": False}}
    return config


def _answered(config: Mapping[str, Any], address: str, directory: Path, ask: Conversation) -> Any:
    """Run the proxy, and ask it by a client of the SDK."""
    (directory / "proxy.json").write_text(json.dumps(config))
    command = [str(EXAMPLE), str(directory / "proxy.json"), address]

    async def limited() -> Any:
        async with (
            asyncio.timeout(120),
            Client(StdioServerParameters(command=sys.executable, args=command)) as client,
        ):
            return await ask(client)

    return asyncio.run(limited())


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What one proxy answers to one client, by the name of the question."""
    directory = tmp_path_factory.mktemp("proxy")

    async def ask(client: Client) -> dict[str, Any]:
        return {
            "tools": {tool.name for tool in (await client.list_tools()).tools},
            "found": await client.call_tool("retrieve_tools", {"query": "time", "include_disabled": True}),
            "limit": await client.call_tool("retrieve_tools", {"query": "time", "limit": 0}),
            "callable": await client.call_tool("time_get_current_time", {"timezone": "UTC"}),
            "disabled": await client.call_tool("git_git_reset", {}),
            "off": await client.call_tool("off_git_reset", {}),
            "never listed": await client.call_tool("off_git_status", {}),
            "unknown": await client.call_tool("git_git_statu", {}),
        }

    with serving() as address:
        return dict(_answered(_config(directory), address, directory, ask))


def test_only_what_can_be_called_is_listed(answers: dict[str, Any]) -> None:
    """By FastMCP's names, beside the discovery tool."""
    assert {"retrieve_tools", "time_get_current_time", "git_git_status"} <= answers["tools"]
    assert not {"time_convert_time", "git_git_reset", "git_git_commit", "off_git_reset"} & answers["tools"]


def test_locked_tools_are_shown_on_request_by_fastmcps_names(answers: dict[str, Any]) -> None:
    """With the server's name and an underscore in front."""
    found = answers["found"].structured_content
    assert "time_get_current_time" in [each["name"] for each in found["tools"]]
    assert [(each["name"], each["server"], each["status"]) for each in found["disabled"]] == [
        ("time_convert_time", "time", "disabled_by_config")
    ]
    assert json.loads(answers["found"].content[0].text) == found


def test_a_wrong_limit_is_an_error_that_says_the_range(answers: dict[str, Any]) -> None:
    """In the words of the adapter."""
    assert answers["limit"].is_error
    assert "from 1 to 100, and is 0" in answers["limit"].content[0].text


def test_a_callable_tool_is_called(answers: dict[str, Any]) -> None:
    """By its server."""
    assert not answers["callable"].is_error
    assert json.loads(answers["callable"].content[0].text)["timezone"] == "UTC"


def test_a_locked_tool_is_rejected_with_the_names_in_the_phrase(answers: dict[str, Any]) -> None:
    """And a tool of a disabled server too, which is not connected."""
    assert answers["disabled"].is_error
    assert answers["disabled"].structured_content["status"] == "disabled_by_user"
    assert "set `disabled` of git_git_reset to false in proxy.json" in answers["disabled"].content[0].text
    assert answers["off"].structured_content["status"] == "server_disabled"
    assert answers["never listed"].structured_content["status"] == "server_disabled"


def test_an_unknown_tool_is_answered_with_near_names(answers: dict[str, Any]) -> None:
    """Those that can be called."""
    assert answers["unknown"].is_error
    assert '"git_git_status"' in answers["unknown"].content[0].text
    assert "git_git_reset" not in answers["unknown"].content[0].text


def test_without_the_service_only_the_discovery_tool_is_listed_and_nothing_called(tmp_path: Path) -> None:
    """A service that has stopped is out of reach."""
    with serving() as address:
        pass

    async def ask(client: Client) -> tuple[set[str], Any, Any]:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        found = await client.call_tool("retrieve_tools", {"query": "time"})
        return tools, found, await client.call_tool("time_get_current_time", {"timezone": "UTC"})

    tools, *results = _answered(_config(tmp_path), address, tmp_path, ask)
    assert tools == {"retrieve_tools"}
    for result in results:
        assert result.is_error
        assert result.content[0].text.endswith(unavailable("x")["content"][0]["text"].partition(".")[2])


def _example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fastmcp_proxy", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("names", [("a", "a_b"), ("retrieve",)])
def test_names_of_servers_that_two_tools_could_share_are_refused(names: tuple[str, ...]) -> None:
    """A verdict about one tool would be taken for another's."""
    given = json.loads((ROOT / "examples/proxy.json").read_text())["servers"]["git"]
    config = {"agent": "assistant", "servers": dict.fromkeys(names, given)}

    async def made() -> None:
        async with callability.client.Client.remote(["127.0.0.1:1"]) as policy:
            _example().Callability(FastMCP("proxy"), config, policy)

    with pytest.raises(ValueError, match="could have the name of another tool"):
        asyncio.run(made())


class _Restless(FastMCP[Any]):
    """A server whose tool has another description each time that it is listed."""

    lists = 0

    async def list_tools(self, *, run_middleware: bool = True) -> Sequence[Tool]:
        """List the tools, as they are this time."""
        listed = await super().list_tools(run_middleware=run_middleware)
        if run_middleware:
            return listed
        self.lists += 1
        return [tool.model_copy(update={"description": f"Text {self.lists}."}) for tool in listed]


def test_what_is_listed_is_what_was_judged() -> None:
    """Not what a server has said since."""
    policy = GivenPolicy()
    assert policy.give(bundle_of("shipped"))
    given = json.loads((ROOT / "examples/proxy.json").read_text())["servers"]["git"]

    async def listed() -> None:
        server = _Restless("proxy")
        server.tool(lambda: "clean", name="git_git_status")
        async with policy.client as client:
            middleware = _example().Callability(server, {"agent": "assistant", "servers": {"git": given}}, client)
            server.add_middleware(middleware)
            shown = {tool.name: tool.description for tool in await server.list_tools()}
        assert shown["git_git_status"] == middleware.inventory.texts["git_git_status"].description

    asyncio.run(listed())
