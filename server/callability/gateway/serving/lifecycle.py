"""Runs a gateway over one transport, from its start to its shutdown.

Over stdio it limits what an agent is sent and does not read, and answers messages that cannot be read.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Literal

from mcp.server.stdio import stdio_server

from callability.gateway.agents import AgentRouter
from callability.gateway.runtime.runtime import GatewayOptions, opened_runtime
from callability.gateway.serving.listening import HttpPort, UserSocket
from callability.gateway.serving.mcp_server import mcp_server
from callability.gateway.serving.status_socket import status_socket
from callability.gateway.serving.streams import limit_unread, readable
from callability.process.background import stop_signals
from callability.process.web_server import StopSignals

Transport = Literal["stdio", "http", "unix"]


class OutputLost(Exception):
    """Standard output cannot be written, so that no agent can be answered over stdio."""


async def run(
    options: GatewayOptions,
    transport: Transport,
    port: HttpPort | UserSocket,
    agent: str,
    started: Callable[[str], None],
    signals: StopSignals | None = None,
) -> None:
    """Serve until standard input closes (stdio) or SIGTERM, SIGINT or SIGHUP comes; upstream processes end with it.

    On the socket of a user, it also ends when no agent has been connected for as long as the `port` says.

    Over HTTP, calls in flight have a grace time to finish, unless another signal comes.
    Over stdio the `agent` asks, and only the servers in its scope are started; if it is empty, the agent has no name
    and sees every server.
    With `signals` it ends when they request it, and those of the process are left alone.

    Raises:
        AddressRefused: the address may not or cannot be listened on; no server was started.
        OutputLost: an answer cannot be written over stdio.
    """
    if signals is None:
        signals = StopSignals(*stop_signals())
    # What cannot be listened on is refused before any server is run.
    lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    with nullcontext() if transport == "stdio" else _listening_at(port, options) as listener:
        only = agent if transport == "stdio" else ""
        options = replace(options, only_agent=only)
        async with opened_runtime(options) as runtime, status_socket(options, runtime.router):
            router = runtime.router
            if listener is None:
                serve = _serve_stdio(router, agent, lost, options.first_answer)
            elif isinstance(port, UserSocket):
                # Over stdio, nothing of the other transports is needed.
                from callability.gateway.serving.visitors import Visitors  # noqa: PLC0415

                serve = Visitors(runtime, port).serve(listener)
            else:
                from callability.gateway.serving.http_server import serve_http  # noqa: PLC0415

                options.first_answer.set()
                serve = serve_http(router, port, listener, started, signals, options.metrics)
            serving = asyncio.create_task(serve)
            stopped = asyncio.create_task(signals.requested.wait())
            ends: set[asyncio.Future[Any]] = {serving, stopped, lost}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            stopped.cancel()
            if lost.done():
                # Writing to an agent that does not read goes on until the process ends.
                raise OutputLost(lost.result())
            if transport == "http" or serving.done():
                await serving
            if transport == "unix":
                serving.cancel()
                await asyncio.wait({serving})


async def _serve_stdio(router: AgentRouter, agent: str, lost: asyncio.Future[str], first_answer: asyncio.Event) -> None:
    def end(why: str) -> None:
        if not lost.done():
            lost.set_result(why)

    server = mcp_server(router, agent)
    try:
        async with (
            stdio_server() as (read, write),
            limit_unread(write, end) as outgoing,
            readable(read, outgoing, first_answer.set) as incoming,
        ):
            await server.run(incoming, outgoing, server.create_initialization_options())
    except BaseExceptionGroup as group:
        if error := _first_system_error(group):
            why = f"the agent cannot be answered on standard output: {(error.strerror or 'error').lower()}"
            raise OutputLost(why) from group
        raise
    finally:
        first_answer.set()


def _first_system_error(group: BaseExceptionGroup[BaseException]) -> OSError | None:
    """Return the first error of the system in a group: here, what came of reading or writing a standard stream."""
    found: BaseException | None = group.subgroup(OSError)
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found if isinstance(found, OSError) else None


def _listening_at(port: HttpPort | UserSocket, options: GatewayOptions) -> socket.socket:
    if isinstance(port, UserSocket):
        return port.listen()
    port.check(agents_have_tokens=any(agent.token_sha256 for agent in options.config.agents.values()))
    return port.listen()
