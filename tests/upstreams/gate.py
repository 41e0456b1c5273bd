"""An MCP server over stdio whose calls wait until a file is there, and say by another file that they wait."""

import asyncio
import sys
from pathlib import Path
from typing import Any

from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams, Tool

TOOL = {"name": "pass", "description": "Waits.", "inputSchema": {"type": "object"}}
SIZE = 300_000


async def list_tools(_context: object, _params: PaginatedRequestParams | None) -> ListToolsResult:
    """List the tool."""
    return ListToolsResult(tools=[Tool.model_validate(TOOL)])


async def call_tool(_context: object, params: CallToolRequestParams) -> CallToolResult:
    """Create the file `waits`, wait for the file `until`, and return a text that does not fit in one packet."""
    arguments: dict[str, Any] = params.arguments or {}
    waits, until = Path(arguments["waits"]), Path(arguments["until"])
    await asyncio.to_thread(waits.touch)
    while not await asyncio.to_thread(until.exists):  # noqa: ASYNC110 - another process makes the file
        await asyncio.sleep(0.02)
    return CallToolResult.model_validate({"content": [{"type": "text", "text": "x" * SIZE}]})


async def main() -> None:
    """Serve until stdin ends."""
    server: Server[Any] = Server("gate", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
