"""An MCP server over stdio with the tools that a JSON file lists; a call answers with the tool's name and arguments."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams, TextContent, Tool


async def main(listed: list[dict[str, Any]]) -> None:
    """Serve until stdin ends."""
    tools = [Tool.model_validate({"inputSchema": {"type": "object"}} | each) for each in listed]

    async def list_tools(_context: Any, _params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=tools)

    async def call_tool(_context: Any, params: CallToolRequestParams) -> CallToolResult:
        told = {"called": params.name, "with": params.arguments, "nothing": None}
        return CallToolResult(content=[TextContent(text=f"{params.name} was called")], structured_content=told)

    server: Server[Any] = Server("shelf", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main(json.loads(Path(sys.argv[1]).read_text())))
