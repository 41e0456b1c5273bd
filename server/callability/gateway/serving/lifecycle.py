"""The gateway's life: over which transport it is reached, from its start to its end."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Literal

import uvicorn
from mcp.server.stdio import stdio_server

from callability.address import check_loopback, listening
from callability.gateway.agents.router import AgentRouter
from callability.gateway.runtime.gateway_runtime import opened
from callability.gateway.runtime.options import GatewayOptions
from callability.gateway.serving.http_application import HttpApplication
from callability.gateway.serving.http_connections import BACKLOG, KEEP_ALIVE_SECONDS, AcceptFailures, HttpConnection
from callability.gateway.serving.line_limit import limited
from callability.gateway.serving.mcp_server import mcp_server

Transport = Literal["stdio", "http"]
GRACE_SECONDS = 5
"""Seconds that HTTP requests in flight have to finish when the gateway ends."""
REPEAT_SECONDS = 0.25
"""A signal that comes sooner after the first one is the same one, sent twice: a terminal and a parent both do."""
CUT_SECONDS = 1
"""Seconds in which the requests that are cut off end their answers."""
_logger = logging.getLogger(__name__)


class Stopping:
    """What signals ask for: the first one to end, and another one to end at once."""

    def __init__(self) -> None:
        self.requested = asyncio.Event()
        self.at_once = asyncio.Event()
        self._first: float | None = None

    def signal(self) -> None:
        """Take a signal."""
        now = asyncio.get_running_loop().time()
        if self._first is None:
            self._first = now
            self.requested.set()
        elif now - self._first >= REPEAT_SECONDS:
            self.at_once.set()


async def run(
    options: GatewayOptions, transport: Transport, address: str, agent: str, started: Callable[[str], None]
) -> None:
    """Serve until standard input closes (stdio) or SIGTERM, SIGINT or SIGHUP comes; upstream processes end with it.

    Over HTTP, calls in flight have `GRACE_SECONDS` to finish, unless another signal comes.
    Over stdio the `agent` asks; empty, it is not told apart, and sees every server.

    Raises:
        AddressRefused: the address is not loopback, or cannot be listened on; no server was started.
    """
    stopping = Stopping()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stopping.signal)
    # What cannot be listened on is refused before any server is run.
    with nullcontext() if transport == "stdio" else _listening_at(address) as listener:
        async with opened(options) as router:
            if listener is None:
                serve = _serve_stdio(router, agent)
            else:
                serve = _serve_http(router, address, listener, started, stopping)
            serving = asyncio.create_task(serve)
            stopped = asyncio.create_task(stopping.requested.wait())
            await asyncio.wait({serving, stopped}, return_when=asyncio.FIRST_COMPLETED)
            stopped.cancel()
            if transport == "http" or serving.done():
                await serving


async def _serve_stdio(router: AgentRouter, agent: str) -> None:
    server = mcp_server(router, agent)
    async with stdio_server() as (read, write), limited(write) as outgoing:
        await server.run(read, outgoing, server.create_initialization_options())


async def _serve_http(
    router: AgentRouter, address: str, listener: socket.socket, started: Callable[[str], None], stopping: Stopping
) -> None:
    if not router.tokens:
        _logger.warning("no agent has a token: whoever reaches %s can call every tool that can be called", address)
    host, port = listener.getsockname()[:2]
    application = HttpApplication(router, host)
    server = _Server(_settings(application, host, port))
    asyncio.get_running_loop().set_exception_handler(AcceptFailures())
    started(f"http://{address.rpartition(':')[0]}:{port}/mcp")
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    await _first_of(serving, stopping.requested.wait())
    application.stop()
    server.should_exit = True
    await _first_of(serving, stopping.at_once.wait(), asyncio.sleep(GRACE_SECONDS))
    if not serving.done():
        await server.cut("another signal came" if stopping.at_once.is_set() else f"{GRACE_SECONDS} s are over")
    await serving


class _Server(uvicorn.Server):
    """Leaves the signals of the process to the gateway."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def cut(self, why: str) -> None:
        """End the requests in flight, and the connections whose client does not read."""
        tasks = set(self.server_state.tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            _logger.warning("%d requests are cut off: %s", len(tasks), why)
            await asyncio.wait(tasks, timeout=CUT_SECONDS)
        for connection in tuple(self.server_state.connections):
            connection.transport.abort()


def _settings(application: HttpApplication, host: str, port: int) -> uvicorn.Config:
    return uvicorn.Config(
        application,
        host=host,
        port=port,
        http=HttpConnection,
        ws="none",
        log_config=None,
        access_log=_logger.isEnabledFor(logging.DEBUG),
        # Under uvloop a child's pipe stays open in other children, so that its end is not noticed.
        loop="asyncio",
        lifespan="on",
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
    )


async def _first_of(serving: asyncio.Task[None], *others: Coroutine[Any, Any, object]) -> None:
    """Wait until the server has ended, or one of the others has."""
    waiting = [asyncio.create_task(other) for other in others]
    await asyncio.wait({serving, *waiting}, return_when=asyncio.FIRST_COMPLETED)
    for each in waiting:
        each.cancel()


def _listening_at(address: str) -> socket.socket:
    check_loopback(address, "what agents send is not encrypted")
    return listening(address)
