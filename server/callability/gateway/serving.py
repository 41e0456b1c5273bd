"""The gateway's life: over which transport it is reached, from its start to its end."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Callable
from contextlib import nullcontext
from typing import Literal

import uvicorn
from mcp.server.stdio import stdio_server

from callability.address import check_loopback, listening
from callability.gateway.agents import Gateways
from callability.gateway.http_application import HttpApplication
from callability.gateway.live import Setup, opened
from callability.gateway.mcp_server import mcp_server

Transport = Literal["stdio", "http"]
GRACE = 2
"""Seconds that HTTP requests in flight have when the gateway stops."""
KEEP_ALIVE_SECONDS = 75
"""Seconds that a connection without a request is kept: longer than clients keep theirs, many of them for five.

Where both end it at the same time, a request meets the end, which costs an MCP client its whole connection.
"""
_logger = logging.getLogger(__name__)


async def run(setup: Setup, transport: Transport, address: str, agent: str, started: Callable[[str], None]) -> None:
    """Serve until standard input closes (stdio) or SIGTERM, SIGINT or SIGHUP comes; upstream processes end with it.

    Over stdio the `agent` asks; empty, it is not told apart, and sees every server.

    Raises:
        AddressRefused: the address is not loopback, or cannot be listened on; no server was started.
    """
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    # What cannot be listened on is refused before any server is run.
    with nullcontext() if transport == "stdio" else _listening_at(address) as listener:
        async with opened(setup) as gateways:
            if listener is None:
                serve = _serve_stdio(gateways, agent)
            else:
                serve = _serve_http(gateways, address, listener, started, stopping)
            serving = asyncio.create_task(serve)
            stopped = asyncio.create_task(stopping.wait())
            await asyncio.wait({serving, stopped}, return_when=asyncio.FIRST_COMPLETED)
            stopped.cancel()
            if transport == "http" or serving.done():
                await serving


async def _serve_stdio(gateways: Gateways, agent: str) -> None:
    server = mcp_server(gateways, agent)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


async def _serve_http(
    gateways: Gateways, address: str, listener: socket.socket, started: Callable[[str], None], stopping: asyncio.Event
) -> None:
    if not gateways.tokens:
        _logger.warning("no agent has a token: whoever reaches %s can call every tool that can be called", address)
    host, port = listener.getsockname()[:2]
    config = uvicorn.Config(
        HttpApplication(gateways, host),
        host=host,
        port=port,
        log_config=None,
        access_log=_logger.isEnabledFor(logging.DEBUG),
        # Under uvloop a child's pipe stays open in other children, so that its end is not noticed.
        loop="asyncio",
        lifespan="on",
        timeout_graceful_shutdown=GRACE,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
    )
    server = uvicorn.Server(config)
    started(f"http://{address.rpartition(':')[0]}:{port}/mcp")
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    stopped = asyncio.create_task(stopping.wait())
    await asyncio.wait({serving, stopped}, return_when=asyncio.FIRST_COMPLETED)
    server.should_exit = True
    stopped.cancel()
    await serving


def _listening_at(address: str) -> socket.socket:
    check_loopback(address, "what agents send is not encrypted")
    return listening(address)
