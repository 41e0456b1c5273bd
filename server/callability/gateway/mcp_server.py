"""The gateway as an MCP server: one factory for both transports, which serves every revision that the library does."""

from __future__ import annotations

from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams

from callability import __version__
from callability.gateway.agents import Gateways
from callability.gateway.progress import progress_of
from callability.gateway.tool_list import TOOLS

INSTRUCTIONS = (
    "Find tools with `retrieve_tools` and call them with `call_tool`. Before you tell a user that something is not"
    " possible, ask `retrieve_tools` with `include_disabled: true`: the tool may exist and be switched off."
)
# What speaks of the connection between agent and gateway, and of no other.
_OWN_META = "io.modelcontextprotocol/"


def mcp_server(gateways: Gateways, agent: str = "") -> Server[Any]:
    """Return the MCP server in front of gateways; where no token tells who asks, it is `agent`."""

    async def on_list_tools(_: object, __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=list(TOOLS))

    async def on_call_tool(context: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        meta = dict(params.meta or {})
        async with progress_of(context, wanted=meta.pop("progress_token", None) is not None) as progress:
            passed_on = {key: value for key, value in meta.items() if not key.startswith(_OWN_META)}
            return await gateways.asked(agent).answer(
                params.name, params.arguments or {}, meta=passed_on, progress=progress
            )

    return Server(
        "callability",
        version=__version__,
        title="callability gateway",
        instructions=INSTRUCTIONS,
        on_list_tools=on_list_tools,
        on_call_tool=on_call_tool,
    )
