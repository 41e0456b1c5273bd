"""The HTTP server under the gateway, which finishes calls in flight before it ends."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from callability.gateway.agents.router import AgentRouter
from callability.gateway.serving.http_application import HttpApplication
from callability.gateway.serving.http_connections import BACKLOG, KEEP_ALIVE_SECONDS, AcceptFailures, HttpConnection
from callability.gateway.serving.stopping import Stopping

GRACE_SECONDS = 5
"""Seconds that HTTP requests in flight have to finish when the gateway ends."""
CUT_SECONDS = 1
"""Seconds in which the requests that are cut off end their answers."""
_logger = logging.getLogger(__name__)


async def serve_http(
    router: AgentRouter, address: str, listener: socket.socket, started: Callable[[str], None], stopping: Stopping
) -> None:
    """Serve on a listening socket until a signal comes; `started` is called with the URL.

    Calls in flight have `GRACE_SECONDS` to finish, unless another signal comes.
    """
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
        # Under uvloop a child's pipe stays open in other children, so its end goes unnoticed.
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
