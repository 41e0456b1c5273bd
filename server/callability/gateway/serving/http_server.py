"""The HTTP server under the gateway, which finishes calls in flight before it ends."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable

from callability.certificates import CurrentContext
from callability.gateway.agents.router import AgentRouter
from callability.gateway.observability.metrics import Metrics
from callability.gateway.serving.http_application import HttpApplication
from callability.gateway.serving.http_connections import BACKLOG, KEEP_ALIVE_SECONDS, AcceptFailures, HttpConnection
from callability.gateway.serving.http_port import HttpPort
from callability.uvicorn_server import StopSignals, UvicornServer

GRACE_SECONDS = 5
"""Seconds that HTTP requests in flight have to finish when the gateway ends."""
_logger = logging.getLogger(__name__)


async def serve_http(
    router: AgentRouter,
    at: HttpPort,
    listener: socket.socket,
    started: Callable[[str], None],
    signals: StopSignals,
    metrics: Metrics,
) -> None:
    """Serve on a listening socket until a signal comes; `started` is called with the URL.

    Calls in flight have `GRACE_SECONDS` to finish, unless another signal comes.
    """
    host, port = listener.getsockname()[:2]
    reached = f"{at.address.rpartition(':')[0]}:{port}"
    if not router.tokens:
        _logger.warning("no agent has a token: every client that reaches %s can call every callable tool", reached)
    if not at.is_local and not at.hosts:
        _logger.warning("requests whose `Host` is not this machine or %s are refused: give `--allowed-host`", host)
    application = HttpApplication(router, (host, *at.hosts), at.scheme)
    certificates = at.certificates
    metrics.sessions = lambda: application.sessions_by_agent
    if certificates is not None:
        metrics.watch_certificates(certificates)
    server = UvicornServer(
        application,
        host=host,
        port=port,
        http=HttpConnection,
        ws="none",
        access_log=_logger.isEnabledFor(logging.DEBUG),
        lifespan="on",
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        ssl_context_factory=(lambda *_: CurrentContext.of(certificates)) if certificates else None,
    )
    asyncio.get_running_loop().set_exception_handler(AcceptFailures())
    started(f"{at.scheme}://{reached}/mcp")
    following = asyncio.create_task(certificates.follow()) if certificates else None
    try:
        await server.serve_until(listener, signals, GRACE_SECONDS, application.stop)
    finally:
        if following is not None:
            following.cancel()
