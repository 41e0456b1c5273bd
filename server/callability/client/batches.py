"""Splits a question about many tools into requests within the limits of the service."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from callability.v1.callability_service_pb2 import CheckToolsRequest, ServerTools, Tool
from callability.v1.facts_pb2 import Agent

MAX_TOOLS = 20_000
MAX_SERVERS = 2_000
MAX_BYTES = 3 * 1024 * 1024
"""Bytes of a request. A service takes 1 MiB more: nobody has to count to the byte."""
_AROUND = 16
"""Bytes around an item of a request, and some room."""


def batches(agent: Agent | None, servers: Iterable[ServerTools]) -> Iterator[CheckToolsRequest]:
    """Yield requests about the tools of some servers; those of one server may be spread over several requests."""
    request = CheckToolsRequest(agent=agent)
    empty = MAX_BYTES - request.ByteSize()
    room, space = MAX_TOOLS, empty
    for server in servers:
        start, end = 0, len(server.tools)
        above = ServerTools(name=server.name, facts=server.facts)
        own = above.ByteSize() + _AROUND
        while start < end:
            tools, size = _fitting(server.tools[start : start + room], space - own)
            if not tools and request.servers:
                room = 0
            else:
                # What fits in no request is sent by itself, for the service to refuse.
                part = tools or server.tools[start : start + 1]
                request.servers.append(server if len(part) == end else _with_tools(above, part))
                start, room, space = start + len(part), room - len(part), space - own - size
            if not room or len(request.servers) == MAX_SERVERS:
                yield request
                request, room, space = CheckToolsRequest(agent=agent), MAX_TOOLS, empty
    if request.servers:
        yield request


def _fitting(tools: Sequence[Tool], space: int) -> tuple[Sequence[Tool], int]:
    """Return the first of some tools that have at most so many bytes together, and their bytes."""
    size = 0
    for number, tool in enumerate(tools):
        more = tool.ByteSize() + _AROUND
        if size + more > space:
            return tools[:number], size
        size += more
    return tools, size


def _with_tools(server: ServerTools, tools: Sequence[Tool]) -> ServerTools:
    return ServerTools(name=server.name, facts=server.facts, tools=tools)
