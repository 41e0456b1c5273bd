"""The example of a proxy, against a real server."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import grpc
import pytest

from callability.adapter import JudgedTool, ToolText, unavailable
from callability.v1 import facts_pb2
from callability.v1.callability_service_pb2 import CheckToolsRequest, ServerTools, Tool
from callability.v1.callability_service_pb2_grpc import CallabilityServiceStub
from support.checkout import ROOT
from support.policies import write_policy
from support.running import serving

EXAMPLE = ROOT / "examples/proxy.py"
TEXTS = {
    "git:git_status": ToolText("Show the state of the repository.", {"type": "object"}),
    "git:git_reset": ToolText("Reset the repository."),
    "git:git_push": ToolText("Push the repository."),
    "time:now": ToolText("Tell the time."),
}


def _proxy() -> ModuleType:
    spec = importlib.util.spec_from_file_location("proxy", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["proxy"] = module
    spec.loader.exec_module(module)
    return module


PROXY: Any = _proxy()
SWITCHED_OFF = facts_pb2.Approval(record=facts_pb2.ApprovalRecord(disabled=True))
INVENTORY = PROXY.inventory_of(
    "assistant",
    {
        "git": PROXY.KnownServer(
            tools={
                "git_status": PROXY.KnownTool(annotations={"readOnlyHint": True}),
                "git_reset": PROXY.KnownTool(config_denied=True),
                "git_push": PROXY.KnownTool(approval=SWITCHED_OFF),
            },
            labels={"environment": "production"},
        ),
        "time": PROXY.KnownServer(tools={"now": PROXY.KnownTool()}),
    },
)


@pytest.fixture(scope="module")
def proxy() -> ModuleType:
    """The example as a module."""
    return PROXY  # type: ignore[no-any-return]  # it is a module


def _search(query: str, tools: Sequence[JudgedTool]) -> list[str]:
    return [tool.name for tool in tools if query in str(TEXTS[tool.name].description)]


def _found(proxy: ModuleType, channel: grpc.Channel, **arguments: object) -> Any:
    result = proxy.retrieve_tools(CallabilityServiceStub(channel), INVENTORY, TEXTS, _search, arguments)
    assert result["isError"] is False
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
    return result["structuredContent"]


def test_a_query_finds_what_can_be_called_and_nothing_of_what_cannot(proxy: ModuleType, channel: grpc.Channel) -> None:
    """As if there were no locked tools."""
    assert _found(proxy, channel, query="repository") == {
        "tools": [
            {
                "name": "git:git_status",
                "server": "git",
                "description": "Show the state of the repository.",
                "inputSchema": {"type": "object"},
            }
        ],
        "total": 1,
    }


def test_locked_tools_are_shown_on_request_with_the_proxys_own_phrases(
    proxy: ModuleType, channel: grpc.Channel
) -> None:
    """One that the operator denies, shown whole, and one that is withheld, since nobody knows that it is approved."""
    found = _found(proxy, channel, query="repository", include_disabled=True)
    assert found["disabled"] == [
        {
            "name": "git:git_reset",
            "server": "git",
            "description": "Reset the repository.",
            "status": "disabled_by_config",
        }
    ]
    assert list(found["remediation"]) == ["disabled_by_config"]
    assert "must change `disabled_tools` in /etc/proxy.yaml" in found["remediation"]["disabled_by_config"]
    by_name = _found(proxy, channel, query="push", include_disabled=True)
    assert by_name["disabled"] == [{"name": "git:git_push", "server": "git", "status": "disabled_by_user"}]
    assert "run `proxy tools enable`" in by_name["remediation"]["disabled_by_user"]


def test_a_query_that_finds_locked_tools_alone_says_that_they_exist(proxy: ModuleType, channel: grpc.Channel) -> None:
    """And how to see them."""
    found = _found(proxy, channel, query="Reset")
    assert list(found) == ["tools", "total", "notice"]
    assert found["notice"].startswith("1 matching tool ")


def test_an_argument_out_of_range_is_an_error_that_says_the_range(proxy: ModuleType, channel: grpc.Channel) -> None:
    """Before anything is asked."""
    stub = CallabilityServiceStub(channel)
    for arguments in ({"query": "repository", "limit": 0}, {"query": "repository", "limit": 101}):
        result = proxy.retrieve_tools(stub, INVENTORY, TEXTS, _search, arguments)
        assert result["isError"] is True
        assert "from 1 to 100" in result["content"][0]["text"]


def test_a_call_of_a_locked_tool_is_refused_with_the_proxys_own_phrase(
    proxy: ModuleType, channel: grpc.Channel
) -> None:
    """And a call of one that is callable is not."""
    stub = CallabilityServiceStub(channel)
    assert proxy.refusal(stub, INVENTORY, "git", "git_status") is None
    refused = proxy.refusal(stub, INVENTORY, "git", "git_push")
    assert refused["isError"] is True
    assert refused["structuredContent"] == {
        "status": "disabled_by_user",
        "server": "git",
        "tool": "git_push",
        "lifted_by": "user",
        "retry": "never",
    }
    text = refused["content"][0]["text"]
    assert text.startswith("Not called: disabled_by_user, by policy. ")
    assert 'tool "git_push" of server "git"' in text
    assert "ask the user to run `proxy tools enable`." in text


def test_a_call_of_a_tool_that_is_not_there_names_near_ones_that_can_be_called(
    proxy: ModuleType, channel: grpc.Channel
) -> None:
    """And no locked one, however near."""
    text = proxy.refusal(CallabilityServiceStub(channel), INVENTORY, "git", "git_rest")["content"][0]["text"]
    assert '"git:git_status"' in text
    assert "git_reset" not in text


def test_only_a_server_with_locked_tools_has_counts(proxy: ModuleType, channel: grpc.Channel) -> None:
    """Each tool is counted once."""
    assert proxy.tool_counts(CallabilityServiceStub(channel), INVENTORY) == {
        "git": {"callable": 1, "disabled_by_config": 1, "disabled_by_user": 1}
    }


def test_a_policy_that_reads_every_group_holds_back_no_tool_of_the_proxy(proxy: ModuleType, tmp_path: Path) -> None:
    """It sends complete groups; each tool that reaches a rule about a group that is left out is undetermined."""
    rules = """\
labels:
  server: {environment: [production, test]}
  tool: {kind: [report]}
rules:
  - {id: label, when: {server.label.environment: test, tool.label.kind: report}, status: disabled_by_config}
  - {id: hint, when: {server.label.environment: production, annotations.open_world: false}, status: disabled_by_config}
  - {id: kind, when: {tool.label.kind: report, annotations.read_only: false}, status: disabled_by_config}
  - {id: agent, when: {agent.name: "other-*"}, status: disabled_by_config}
  - id: lock
    when: {any: [{server.quarantined: true}, {approval.status: [pending, changed]}]}
    status: disabled_unknown
  - {id: open, status: callable}
words:
  disabled_by_config: {remediation: Ask., rejection: Ask.}
  disabled_unknown: {remediation: Ask., rejection: Ask.}
"""
    tools = {"now": proxy.KnownTool(), "zone": proxy.KnownTool(annotations={"readOnlyHint": True})}
    sent = proxy.inventory_of("assistant", {"time": proxy.KnownServer(tools, labels={"environment": "production"})})
    without_agent = CheckToolsRequest(servers=sent.servers)
    with (
        serving("--policy", str(write_policy(tmp_path, rules))) as address,
        grpc.insecure_channel(address) as channel,
    ):
        stub = CallabilityServiceStub(channel)
        assert proxy.tool_counts(stub, sent) == {}
        assert proxy.tool_counts(stub, without_agent) == {"time": {"callable": 0, "disabled_unknown": 2}}


def test_without_the_service_nothing_is_named_and_nothing_called(proxy: ModuleType) -> None:
    """A server that has stopped is out of reach."""
    with serving() as address:
        pass
    with grpc.insecure_channel(address) as channel:
        stub = CallabilityServiceStub(channel)
        found = proxy.retrieve_tools(stub, INVENTORY, TEXTS, _search, {"query": "repository"})
        refused = proxy.refusal(stub, INVENTORY, "git", "git_status")
    assert found == refused == unavailable("the policy service gave no answer")


def test_the_answer_about_a_large_catalog_is_accepted(tmp_path: Path) -> None:
    """It names the unread facts of each tool, and has more than the 4 MiB that gRPC accepts by default."""
    key = "k" * 128
    rule = f"{{all: [{{server.label.{key}: a}}, {{tool.label.{key}: a}}]}}"
    text = (
        f"labels: {{server: {{{key}: [a]}}, tool: {{{key}: [a]}}}}\n"
        f"rules:\n  - {{id: lock, when: {rule}, status: disabled_by_config}}\n"
        "  - {id: held, when: {any: [{server.quarantined: true}, {approval.status: [pending, changed]}]},"
        " status: disabled_unknown}\n  - {id: open, status: callable}\n"
        "words:\n  disabled_by_config: {remediation: Ask., rejection: 'Tool {tool}: ask.'}\n"
        "  disabled_unknown: {remediation: '{check_logs}', rejection: 'Tool {tool}: {check_logs}.'}\n"
    )
    tools = [Tool(name=f"t{number}") for number in range(20_000)]
    request = CheckToolsRequest(servers=[ServerTools(name="s", tools=tools)])
    with serving("--policy", str(write_policy(tmp_path, text))) as address, PROXY.connected(address) as channel:
        response = CallabilityServiceStub(channel).CheckTools(request)
    assert response.ByteSize() > 4 * 1024**2
    assert len(response.servers[0].results) == 20_000
