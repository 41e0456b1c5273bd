"""Deriving the request about one tool from the request about all, so that both send the same facts."""

from __future__ import annotations

from callability.v1.callability_service_pb2 import CheckToolRequest, CheckToolsRequest


def check_tool_request(inventory: CheckToolsRequest, server: str, tool: str) -> CheckToolRequest:
    """Return the request about a tool of an inventory.

    Raises:
        KeyError: it is not in it.
    """
    for each in inventory.servers:
        if each.name == server:
            for one in each.tools:
                if one.name == tool:
                    request = CheckToolRequest(server=server, server_facts=each.facts, tool=tool, tool_facts=one.facts)
                    # An agent that is absent is unknown; copied, it would be present and without a name.
                    if inventory.HasField("agent"):
                        request.agent.CopyFrom(inventory.agent)
                    return request
    raise KeyError(tool)
