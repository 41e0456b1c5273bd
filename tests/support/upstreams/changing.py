"""An MCP server whose tools change on request, and which announces it, in the revision of its first argument."""

import asyncio
import json
import socket
import sys
from typing import Any

import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    SubscriptionsListenResult,
    TextContent,
    Tool,
)

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


class BriefStreams(ListenHandler):
    """Ends each stream of changes as soon as it is open, and counts them in the description of a tool."""

    def __init__(self, bus: InMemorySubscriptionBus, tools: Tools) -> None:
        super().__init__(bus)
        self._tools = tools
        self._count = 0

    async def __call__(self, *request: Any) -> SubscriptionsListenResult:
        """Open a stream, and end it."""
        self._count += 1
        self._tools.description = f"Counted {self._count} streams."
        asyncio.get_running_loop().call_later(0.01, self.close)
        return await super().__call__(*request)


def by_library(tools: Tools, streams: str = "") -> Server[Any]:
    """Return a server of MCP 2026-07-28, whose streams of changes are `brief` or not."""
    bus = InMemorySubscriptionBus()

    async def list_tools(_context: Any, _params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[Tool.model_validate(tool) for tool in tools.listed()])

    async def call_tool(_context: Any, params: CallToolRequestParams) -> CallToolResult:
        tools.description = (params.arguments or {})["description"]
        await bus.publish(ToolsListChanged())
        return CallToolResult(content=[TextContent(text="changed")])

    listen = BriefStreams(bus, tools) if streams == "brief" else ListenHandler(bus)
    return Server("changing", on_list_tools=list_tools, on_call_tool=call_tool, on_subscriptions_listen=listen)


async def over_stdio(server: Server[Any]) -> None:
    """Serve until stdin ends."""
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def over_http(server: Server[Any]) -> None:
    """Serve on a free port, whose address is printed, until it is stopped."""
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
