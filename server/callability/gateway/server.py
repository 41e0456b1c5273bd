"""The gateway as an MCP server: one factory for both transports, and its life from start to end."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import uvicorn
from mcp.server.auth.settings import AuthSettings
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams
from pydantic import AnyHttpUrl
from starlette.applications import Starlette

from callability import __version__
from callability.address import AddressRefused, check_loopback
from callability.finding import shown
from callability.gateway.agents import Gateways, Tokens
from callability.gateway.config import Config, ServerConfig
from callability.gateway.config.approvals import NO_APPROVALS, Approvals, load_approvals
from callability.gateway.decisions import MAX_NAME_BYTES, CallabilityStub, Decisions
from callability.gateway.gateway import Gateway
from callability.gateway.inventory import Inventory
from callability.gateway.phrases import phrases
from callability.gateway.tool_list import TOOLS
from callability.gateway.upstream import HttpTarget, StdioTarget, Upstream, UpstreamError

Transport = Literal["stdio", "http"]
INSTRUCTIONS = (
    "Find tools with `retrieve_tools` and call them with `call_tool`. Before you tell a user that something is not"
    " possible, ask `retrieve_tools` with `include_disabled: true`: the tool may exist and be switched off."
)
GRACE = 2
"""Seconds that HTTP requests in flight have when the gateway stops."""
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Setup:
    """What a gateway is made of: its config, its approvals with the file they come from, and the policy's stub."""

    config: Config
    approvals: Approvals
    approvals_path: Path | None
    stub: CallabilityStub


def approvals_of(config: Config, path: Path | None) -> tuple[Approvals, Path | None]:
    """Return the approvals in a file, or in that which the config names, and the file."""
    path = path or config.approvals
    return (load_approvals(path), path) if path else (NO_APPROVALS, None)


def mcp_server(gateways: Gateways) -> Server[Any]:
    """Return the MCP server in front of gateways; it serves every protocol revision that the library does."""

    async def on_list_tools(_: object, __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=list(TOOLS))

    async def on_call_tool(_: object, params: CallToolRequestParams) -> CallToolResult:
        return await gateways.asked().answer(params.name, params.arguments or {})

    return Server(
        "callability",
        version=__version__,
        title="callability gateway",
        instructions=INSTRUCTIONS,
        on_list_tools=on_list_tools,
        on_call_tool=on_call_tool,
    )


@asynccontextmanager
async def opened(setup: Setup) -> AsyncIterator[Gateways]:
    """Begin to connect every enabled server, and disconnect them all at the end."""
    deadlines = setup.config.deadlines
    upstreams = {
        name: Upstream(
            name,
            _target(server),
            open_seconds=deadlines.open_seconds,
            call_seconds=deadlines.call_seconds,
            names_only=server.quarantined,
        )
        for name, server in setup.config.servers.items()
        if server.enabled
    }
    inventory = Inventory(setup.config, setup.approvals, upstreams)
    by_agent = {"": _gateway(setup, inventory, "")}
    for name, agent in setup.config.agents.items():
        by_agent[name] = _gateway(setup, inventory.scoped(agent.servers), name)
    for server in setup.approvals.records:
        if server not in setup.config.servers:
            _logger.warning("the approvals have records of server %s, which is not in the config", shown(server))
    for upstream in upstreams.values():
        upstream.start()
    watching = [asyncio.create_task(_warn_of_unmatched(setup, upstream)) for upstream in upstreams.values()]
    try:
        yield Gateways(by_agent)
    finally:
        for task in watching:
            task.cancel()
        await asyncio.gather(*watching, *(upstream.close() for upstream in upstreams.values()), return_exceptions=True)


def _gateway(setup: Setup, inventory: Inventory, agent: str) -> Gateway:
    config, approvals = setup.config.path.resolve(), setup.approvals_path
    return Gateway(
        inventory,
        Decisions(setup.stub, inventory, agent=agent),
        phrases(config, approvals.resolve() if approvals else None),
        approvals_readable=setup.approvals.readable,
    )


async def run(setup: Setup, transport: Transport, address: str, agent: str, started: Callable[[str], None]) -> None:
    """Serve until standard input closes (stdio) or SIGTERM, SIGINT or SIGHUP comes; upstream processes end with it.

    Over stdio the `agent` asks; empty, it is not told apart, and sees every server.

    Raises:
        AddressRefused: the address is not loopback, or cannot be listened on.
    """
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with opened(setup) as gateways:
        if transport == "stdio":
            serve = _serve_stdio(gateways.for_agent(agent))
        else:
            serve = _serve_http(gateways, Tokens(setup.config.agents), address, started, stopping)
        serving = asyncio.create_task(serve)
        stopped = asyncio.create_task(stopping.wait())
        await asyncio.wait({serving, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if transport == "http" or serving.done():
            await serving


async def _serve_stdio(gateways: Gateways) -> None:
    server = mcp_server(gateways)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


async def _serve_http(
    gateways: Gateways, tokens: Tokens, address: str, started: Callable[[str], None], stopping: asyncio.Event
) -> None:
    check_loopback(address, "what agents send is not encrypted")
    if not tokens:
        _logger.warning("no agent has a token: whoever reaches %s can call every tool that can be called", address)
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    config = uvicorn.Config(
        _application(gateways, tokens, host),
        host=host,
        port=int(port),
        log_config=None,
        # Under uvloop a child's pipe stays open in other children, so that its end is not noticed.
        loop="asyncio",
        timeout_graceful_shutdown=GRACE,
    )
    server = uvicorn.Server(config)
    listening = _listening(host, int(port), address)
    started(f"http://{address.rpartition(':')[0]}:{listening.getsockname()[1]}/mcp")
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    stopped = asyncio.create_task(stopping.wait())
    await asyncio.wait({serving, stopped}, return_when=asyncio.FIRST_COMPLETED)
    server.should_exit = True
    stopped.cancel()
    await serving


def _application(gateways: Gateways, tokens: Tokens, host: str) -> Starlette:
    server = mcp_server(gateways)
    if not tokens:
        return server.streamable_http_app(host=host)
    # The library wants an issuer; without a resource URL no client is sent there, and 401 is the end of it.
    settings = AuthSettings(issuer_url=AnyHttpUrl("http://127.0.0.1/none"), resource_server_url=None)
    return server.streamable_http_app(host=host, auth=settings, token_verifier=tokens)


def _listening(host: str, port: int, address: str) -> socket.socket:
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        reason = (error.strerror or "error").lower()
        raise AddressRefused(f"`{address}` cannot be listened on: {reason}") from error


def _target(server: ServerConfig) -> StdioTarget | HttpTarget:
    if server.command is not None:
        return StdioTarget(server.command, server.args, server.env, server.cwd)
    return HttpTarget(server.url or "", server.headers)


async def _warn_of_unmatched(setup: Setup, upstream: Upstream) -> None:
    """Log entries of a server's two lists and records that none of its tools has (A.2), and names that are none."""
    try:
        await upstream.opened()
    except UpstreamError:
        return
    names = {tool.name for tool in upstream.tools}
    for finding in setup.config.unmatched(upstream.name, names):
        _logger.warning("%s", finding)
    for tool in setup.approvals.tools(upstream.name):
        if tool not in names:
            _logger.warning("the approval record of %s matches no tool of server `%s`", shown(tool), upstream.name)
    unaskable = sum(not 0 < len(name.encode()) <= MAX_NAME_BYTES for name in names)
    if unaskable:
        sentence = "`%s` lists %d tools whose names are empty or have more than %d bytes: they cannot be called"
        _logger.warning(sentence, upstream.name, unaskable, MAX_NAME_BYTES)
