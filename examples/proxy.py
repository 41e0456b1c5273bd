"""The three answers of an MCP proxy, by callability. Paste it, and put in your own phrases, inventory and search.

The inventory is a `CheckToolsRequest` with what the proxy knows of the tools that the agent at hand may see, made by
`inventory_of`, and `texts` holds what their servers say of them, by `server:tool`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc

from callability import adapter
from callability.v1 import facts_pb2
from callability.v1.callability_service_pb2 import CheckToolsRequest, ServerTools, Tool
from callability.v1.callability_service_pb2_grpc import CallabilityServiceStub

PHRASES = {
    "enable_server": "run `proxy servers enable`",
    "edit_config": "change `disabled_tools` in /etc/proxy.yaml",
    "enable_tool": "run `proxy tools enable`",
    "approve_tool": "run `proxy tools approve`",
}
"""The proxy's own switches. An action that has none here is named neutrally."""

SECONDS = 5.0
Result = dict[str, Any]
Search = Callable[[str, Sequence[adapter.JudgedTool]], Sequence[str]]
"""The proxy's own search: a query, and the tools to search, and no others; the names of those found, best first."""


def connected(address: str) -> grpc.Channel:
    """Return a channel to the service at an address.

    gRPC would send calls to the proxy that `http_proxy` names, even calls to loopback, and refuse answers of more than
    4 MiB, as the one about 20,000 tools can be.
    """
    return grpc.insecure_channel(address, [("grpc.enable_http_proxy", 0), ("grpc.max_receive_message_length", -1)])


@dataclass(frozen=True)
class KnownTool:
    """What the proxy knows of a tool; None for what it could not read."""

    config_denied: bool | None = False
    approval: facts_pb2.Approval | None = field(default_factory=facts_pb2.Approval)
    annotations: Mapping[str, bool] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class KnownServer:
    """What the proxy knows of a server; None for what it could not read."""

    tools: Mapping[str, KnownTool]
    enabled: bool | None = True
    quarantined: bool | None = False
    labels: Mapping[str, str] = field(default_factory=dict)


def inventory_of(agent: str, servers: Mapping[str, KnownServer]) -> CheckToolsRequest:
    """Return the question about every tool that an agent may see.

    The groups `agent`, `labels` and `annotations` are always there, even if they are empty. A group that is left out is
    unknown as a whole, and a policy that reads it holds back each tool that reaches such a rule.
    """
    request = CheckToolsRequest(agent=facts_pb2.Agent(name=agent))
    for name, server in servers.items():
        labels = facts_pb2.Labels(values=server.labels)
        facts = facts_pb2.ServerFacts(enabled=server.enabled, quarantined=server.quarantined, labels=labels)
        tools = [Tool(name=tool, facts=_tool_facts(known)) for tool, known in server.tools.items()]
        request.servers.append(ServerTools(name=name, facts=facts, tools=tools))
    return request


def _tool_facts(tool: KnownTool) -> facts_pb2.ToolFacts:
    return facts_pb2.ToolFacts(
        config_denied=tool.config_denied,
        approval=tool.approval,
        annotations=facts_pb2.Annotations(
            read_only=tool.annotations.get("readOnlyHint"),
            destructive=tool.annotations.get("destructiveHint"),
            idempotent=tool.annotations.get("idempotentHint"),
            open_world=tool.annotations.get("openWorldHint"),
        ),
        labels=facts_pb2.Labels(values=tool.labels),
    )


def retrieve_tools(
    stub: CallabilityServiceStub,
    inventory: CheckToolsRequest,
    texts: Mapping[str, adapter.ToolText],
    search: Search,
    arguments: Mapping[str, Any],
) -> Result:
    """Return the MCP result of a call of the discovery tool."""
    try:
        checked = adapter.checked_arguments(arguments)
        judgement = adapter.judge(inventory, stub.CheckTools(inventory, timeout=SECONDS))
    except adapter.InvalidArgument as error:
        return adapter.error_result(str(error))
    except grpc.RpcError:
        return adapter.unavailable("the policy service gave no answer")
    answer = adapter.discovery(
        judgement,
        checked.query,
        found=search(checked.query, judgement.callable),
        found_locked=search(checked.query, judgement.searchable),
        texts=texts,
        phrases=PHRASES,
        limit=checked.limit,
        include_disabled=checked.include_disabled,
    )
    return adapter.tool_result(answer)


def refusal(stub: CallabilityServiceStub, inventory: CheckToolsRequest, server: str, tool: str) -> Result | None:
    """Return the MCP result of a call of a tool that must not be called; None: call it."""
    question = adapter.check_tool_request(inventory, server, tool)
    try:
        if question is None:
            judgement = adapter.judge(inventory, stub.CheckTools(inventory, timeout=SECONDS))
            return adapter.unknown_tool(f"{server}:{tool}", [near.name for near in judgement.callable])
        return adapter.rejection(stub.CheckTool(question, timeout=SECONDS), server, tool, phrases=PHRASES)
    except grpc.RpcError:
        return adapter.unavailable("the policy service gave no answer")


def tool_counts(stub: CallabilityServiceStub, inventory: CheckToolsRequest) -> dict[str, dict[str, int]]:
    """Return the `tools` block of each server that has one, for the proxy's list of servers."""
    return adapter.tool_counts(adapter.judge(inventory, stub.CheckTools(inventory, timeout=SECONDS)))
