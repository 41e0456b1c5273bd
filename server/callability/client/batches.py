"""Splits a question about many tools into requests within the limits of the service."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from callability.v1.callability_service_pb2 import CheckToolsRequest, ServerTools
from callability.v1.facts_pb2 import Agent

MAX_TOOLS = 20_000
MAX_SERVERS = 2_000


def batches(agent: Agent | None, servers: Iterable[ServerTools]) -> Iterator[CheckToolsRequest]:
    """Yield requests about the tools of some servers; those of one server may be spread over several requests."""
    request, room = CheckToolsRequest(agent=agent), MAX_TOOLS
    for server in servers:
        start, end = 0, len(server.tools)
        while start < end:
            part = min(room, end - start)
            tools = server.tools[start : start + part]
            request.servers.append(
                server if part == end else ServerTools(name=server.name, facts=server.facts, tools=tools)
            )
            start, room = start + part, room - part
            if not room or len(request.servers) == MAX_SERVERS:
                yield request
                request, room = CheckToolsRequest(agent=agent), MAX_TOOLS
    if request.servers:
        yield request
