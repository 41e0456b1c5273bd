"""An MCP server whose tools change on request, and which announces it, in the revision of its first argument.

The SDK, whose import takes a second, is imported for the newer one alone.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp.server.lowlevel import Server
    from mcp.server.subscriptions import ListenHandler
    from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams

CAPABILITIES = {"tools": {"listChanged": True}}


class Tools:
    """The tools: `change`, and `other`, whose description is the argument of the last `change`."""

    def __init__(self) -> None:
        self.description = "Counts sheep."

    def listed(self) -> list[dict[str, Any]]:
        """Return the tools as MCP writes them."""
        schema = {"type": "object"}
        return [
            {"name": "change", "description": "Changes the other tool.", "inputSchema": schema},
            {"name": "other", "description": self.description, "inputSchema": schema},
        ]


def by_hand(tools: Tools) -> None:
    """Serve MCP 2025-11-25 over stdio, which the library's own server does only where the client wants it."""
    for line in sys.stdin:
        request = json.loads(line)
        result: dict[str, Any] | None = None
        match request["method"]:
            case "initialize":
                info = {"name": "changing", "version": "1"}
                result = {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES, "serverInfo": info}
            case "tools/list":
                result = {"tools": tools.listed()}
            case "tools/call":
                tools.description = request["params"]["arguments"]["description"]
                print(json.dumps({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}), flush=True)
                result = {"content": []}
        if "id" in request and result is None:
            error = {"code": -32601, "message": "no such method"}
            print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}), flush=True)
        elif "id" in request:
            print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)


def brief(listen: ListenHandler, tools: Tools) -> Callable[..., Awaitable[Any]]:
    """Return what ends each stream of changes as soon as it is open, and counts them in the description of a tool."""
    count = 0

    async def open_and_end(*request: Any) -> Any:
        nonlocal count
        count += 1
        tools.description = f"Counted {count} streams."
        asyncio.get_running_loop().call_later(0.01, listen.close)
        return await listen(*request)

    return open_and_end


def by_library(tools: Tools, streams: str = "") -> Server[Any]:
    """Return a server of MCP 2026-07-28, whose streams of changes are `brief` or not."""
    from mcp.server.lowlevel import Server  # noqa: PLC0415
    from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged  # noqa: PLC0415
    from mcp_types import CallToolResult, ListToolsResult, TextContent, Tool  # noqa: PLC0415

    bus = InMemorySubscriptionBus()

    async def list_tools(_context: Any, _params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[Tool.model_validate(tool) for tool in tools.listed()])

    async def call_tool(_context: Any, params: CallToolRequestParams) -> CallToolResult:
        tools.description = (params.arguments or {})["description"]
        await bus.publish(ToolsListChanged())
        return CallToolResult(content=[TextContent(text="changed")])

    listen = ListenHandler(bus)
    on_listen = brief(listen, tools) if streams == "brief" else listen
    return Server("changing", on_list_tools=list_tools, on_call_tool=call_tool, on_subscriptions_listen=on_listen)


async def over_stdio(server: Server[Any]) -> None:
    """Serve until stdin ends."""
    from mcp.server.stdio import stdio_server  # noqa: PLC0415

    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def over_http(server: Server[Any]) -> None:
    """Serve on a free port, whose address is printed, until it is stopped."""
    import uvicorn  # noqa: PLC0415

    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp", flush=True)
        config = uvicorn.Config(server.streamable_http_app(), log_config=None, timeout_graceful_shutdown=1)
        uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["2025"]:
            by_hand(Tools())
        case ["2026", *streams] if streams in ([], ["brief"]):
            asyncio.run(over_stdio(by_library(Tools(), *streams)))
        case ["2026", "http"]:
            over_http(by_library(Tools()))
