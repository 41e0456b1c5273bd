"""An MCP server over stdio whose calls take as long as a test wants them to."""

import asyncio
import sys
from pathlib import Path
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams, Tool

TOOLS = ("pass", "report", "flood", "fill")
PAUSE = 0.05
SIZE = 300_000


async def list_tools(_context: object, _params: PaginatedRequestParams | None) -> ListToolsResult:
    """List the tools."""
    about = {"description": "Waits.", "inputSchema": {"type": "object"}}
    return ListToolsResult(tools=[Tool.model_validate({"name": name, **about}) for name in TOOLS])


async def call_tool(context: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
    """Do what the tool is for."""
    arguments: dict[str, Any] = params.arguments or {}
    match params.name:
        case "pass":
            await _pass(Path(arguments["waits"]), Path(arguments["until"]))
            return _text("x" * SIZE)
        case "report":
            await _report(context, arguments["seconds"])
            return _text("reported")
        case "flood":
            for number in range(arguments["times"]):
                await context.session.report_progress(number, None, "far")
            return _text("flooded")
        case _:
            return _text(arguments["text"] * arguments["times"])


async def _pass(waits: Path, until: Path) -> None:
    """Create the one file, and wait for the other."""
    await asyncio.to_thread(waits.touch)
    while not await asyncio.to_thread(until.exists):  # noqa: ASYNC110 - another process makes the file
        await asyncio.sleep(0.02)


async def _report(context: ServerRequestContext[Any], seconds: float) -> None:
    """Report progress again and again, for so many seconds."""
    for number in range(int(seconds / PAUSE)):
        await context.session.report_progress(number, None, None)
        await asyncio.sleep(PAUSE)


def _text(text: str) -> CallToolResult:
    return CallToolResult.model_validate({"content": [{"type": "text", "text": text}]})


async def main() -> None:
    """Serve until stdin ends."""
    server: Server[Any] = Server("gate", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
