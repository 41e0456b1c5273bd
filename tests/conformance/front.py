"""The gateway with the tools of one upstream beside its own three, so that a suite that knows nothing of `call_tool`
reaches them; server, transport, decisions and upstream are the gateway's own.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server.lowlevel import Server
from mcp_types import CallToolRequestParams, ListToolsResult, PaginatedRequestParams, Tool
from prometheus_client import CollectorRegistry

from callability.cli.own_policy import OwnPolicy
from callability.cli.served_policy import Loaded, loaded_from
from callability.files.policy_origin import PolicyDirectory
from callability.files.shipped_policy import shipped_policy
from callability.gateway.config.config import load_config
from callability.gateway.policy_client import PolicyClient
from callability.gateway.runtime.runtime import GatewayOptions, open_gateway
from callability.gateway.serving.mcp_server import mcp_server
from callability.gateway.tools.dispatch import TOOLS
from callability.service.metrics import PolicyMetrics

UPSTREAM = "everything"
OWN = frozenset(tool.name for tool in TOOLS)
ALL = CallToolRequestParams(name="retrieve_tools", arguments={"query": UPSTREAM, "limit": 100, "schemas": "full"})
"""A call that finds every tool of the upstream, by its server's name."""


def put_before(server: Server[Any]) -> None:
    """Show the upstream's tools as the gateway's `retrieve_tools` does, and have them called by its `call_tool`."""
    listing: Any = server.get_request_handler("tools/list")
    calling: Any = server.get_request_handler("tools/call")

    async def list_tools(context: Any, params: PaginatedRequestParams) -> ListToolsResult:
        own, found = await listing.handler(context, params), await calling.handler(context, ALL)
        tools = json.loads(found.content[0].text)["tools"]
        return ListToolsResult(tools=[*own.tools, *map(_listed, tools)])

    async def call_tool(context: Any, params: CallToolRequestParams) -> Any:
        if params.name not in OWN:
            arguments = {"name": f"{UPSTREAM}:{params.name}", "arguments": params.arguments}
            params = params.model_copy(update={"name": "call_tool", "arguments": arguments})
        return await calling.handler(context, params)

    server.add_request_handler("tools/list", PaginatedRequestParams, list_tools)
    server.add_request_handler("tools/call", CallToolRequestParams, call_tool)


def _listed(found: dict[str, Any]) -> Tool:
    name = found["name"].removeprefix(f"{UPSTREAM}:")
    return Tool(name=name, description=found["description"], input_schema=found["inputSchema"])


async def main(config: Path, loaded: Loaded) -> None:
    """Serve on a free port of loopback until SIGTERM comes, and write the URL to standard output."""
    policy = OwnPolicy(loaded, PolicyMetrics(CollectorRegistry()))
    options = GatewayOptions(load_config(config), None, PolicyClient(policy.client))
    async with open_gateway(options) as gateways:
        server = mcp_server(gateways)
        put_before(server)
        listening = socket.create_server(("127.0.0.1", 0))
        print(f"listening on http://127.0.0.1:{listening.getsockname()[1]}/mcp", flush=True)
        settings = uvicorn.Config(server.streamable_http_app(), log_config=None, loop="asyncio")
        await uvicorn.Server(settings).serve(sockets=[listening])


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), loaded_from(PolicyDirectory(shipped_policy()))))
