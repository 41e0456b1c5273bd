"""What is asked: tools as a proxy has them, 24 combinations of facts in uneven shares, the same in every run."""

from __future__ import annotations

import random
from collections.abc import Iterator

from callability.v1 import callability_service_pb2 as pb
from callability.v1.facts_pb2 import (
    APPROVAL_STATUS_APPROVED,
    APPROVAL_STATUS_PENDING,
    Agent,
    Approval,
    ApprovalRecord,
    ServerFacts,
    ToolFacts,
)

TOOLS_OF_A_SERVER = 10

VERBS = ("get", "list", "search", "create", "update", "delete", "read", "write", "run", "describe", "watch", "export")
OBJECTS = ("file", "issue", "branch", "message", "calendar", "invoice", "customer", "metric", "ticket", "page", "row")
_APPROVED = Approval(record=ApprovalRecord(disabled=False, status=APPROVAL_STATUS_APPROVED))
_SWITCHED_OFF = Approval(record=ApprovalRecord(disabled=True, status=APPROVAL_STATUS_APPROVED))
_PENDING = Approval(record=ApprovalRecord(disabled=False, status=APPROVAL_STATUS_PENDING))

# Each with its share: most servers and most tools are open.
_SERVER_FACTS = {
    7: ServerFacts(enabled=True, quarantined=False),
    1.2: ServerFacts(enabled=True, quarantined=True),
    1.1: ServerFacts(enabled=False, quarantined=False),
    1: ServerFacts(enabled=True),
}
_TOOL_FACTS = {
    10: ToolFacts(config_denied=False, approval=_APPROVED),
    3: ToolFacts(config_denied=False, approval=Approval()),
    2.2: ToolFacts(config_denied=True, approval=_APPROVED),
    2.1: ToolFacts(config_denied=False, approval=_SWITCHED_OFF),
    2: ToolFacts(config_denied=False, approval=_PENDING),
    1: ToolFacts(config_denied=False),
}


def about_many(tools: int, *, variant: int = 0) -> pb.CheckToolsRequest:
    """Return a request about some tools, a multiple of ten, of servers with ten tools each, other servers a variant."""
    source = random.Random(tools + variant)
    names = (f"server-{variant:02}-{number:04}" for number in range(tools // TOOLS_OF_A_SERVER))
    return pb.CheckToolsRequest(agent=Agent(name="build-agent"), servers=[_server(source, name) for name in names])


def about_one_each(tools: int) -> Iterator[pb.CheckToolRequest]:
    """Yield a request about each tool of `about_many` alone."""
    request = about_many(tools)
    for server in request.servers:
        for tool in server.tools:
            yield pb.CheckToolRequest(
                agent=request.agent,
                server=server.name,
                server_facts=server.facts,
                tool=tool.name,
                tool_facts=tool.facts,
            )


def _server(source: random.Random, name: str) -> pb.ServerTools:
    [facts] = source.choices([*_SERVER_FACTS.values()], [*_SERVER_FACTS])
    tools = [_tool(source, tool) for tool in range(TOOLS_OF_A_SERVER)]
    return pb.ServerTools(name=name, facts=facts, tools=tools)


def _tool(source: random.Random, number: int) -> pb.Tool:
    """Return a tool whose name has 11 to 28 characters."""
    [facts] = source.choices([*_TOOL_FACTS.values()], [*_TOOL_FACTS])
    endings = ("now", "by_id", "history", "permissions")
    name = "_".join((source.choice(VERBS), source.choice(OBJECTS), source.choice(endings), str(number)))
    return pb.Tool(name=name, facts=facts)
