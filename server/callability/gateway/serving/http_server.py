"""The gateway over HTTP: every request needs a token as soon as an agent has one; calls in flight are finished."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import BearerAuthBackend, RequireAuthMiddleware
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from callability.files.certificates import CurrentContext
from callability.gateway.agents import AgentRouter
from callability.gateway.config.model import MAX_REQUEST_BYTES
from callability.gateway.observability import Metrics
from callability.gateway.serving.http_connections import (
    BACKLOG,
    KEEP_ALIVE_SECONDS,
    AcceptFailures,
    HttpConnection,
)
from callability.gateway.serving.http_requests import HttpRequests
from callability.gateway.serving.listening import HttpPort
from callability.gateway.serving.mcp_server import mcp_server
from callability.process.uvicorn_server import StopSignals, UvicornServer

PATH = "/mcp"
APPLICATION_END_SECONDS = 2
"""Seconds for ending sessions one by one at shutdown."""
_logger = logging.getLogger(__name__)
# These log a line or more for each session, with its id.
for _name in ("mcp.server.streamable_http", "mcp.server.streamable_http_manager"):
    logging.getLogger(_name).setLevel(logging.WARNING)


class HttpApplication:
    """An ASGI application that checks for each request whether it needs a token, because an edit may change that.

    A session that was opened without a token does not exist for requests that need one.
    """

    def __init__(self, router: AgentRouter, hosts: Sequence[str], scheme: str) -> None:
        self._router = router
        # `HttpRequests` limits the number of sessions and how long they last: the library does not report that a
        # session has ended, by which those of an agent are counted, and an edit reaches no session that is open.
        self._library = StreamableHTTPSessionManager(
            mcp_server(router),
            security_settings=_known_hosts(hosts, scheme),
            session_idle_timeout=None,
            max_sessions=None,
            max_request_body_size=MAX_REQUEST_BYTES,
        )
        self._requests = HttpRequests(
            self._library.handle_request, lambda: router.http, router.list_changed.remove_session
        )
        router.http_changed = self._requests.sessions.apply_limits
        router.is_over_http = True
        self._open = Starlette(routes=[Route(PATH, self._requests)])
        self._guarded = Starlette(
            routes=[Route(PATH, RequireAuthMiddleware(self._requests, []))],
            middleware=[
                Middleware(AuthenticationMiddleware, backend=BearerAuthBackend(router)),
                Middleware(AuthContextMiddleware),
            ],
        )
        self._life = Starlette(lifespan=self._lifespan)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to the application that it is for."""
        if scope["type"] == "lifespan":
            application = self._life
        else:
            application = self._guarded if self._router.guarded else self._open
        await application(scope, receive, send)

    @property
    def sessions_by_agent(self) -> Mapping[str, int]:
        """How many sessions each agent has open."""
        return self._requests.sessions.by_agent

    def stop(self) -> None:
        """Accept no more requests and end the streams of notifications; calls in flight go on."""
        self._requests.stop()
        self._router.list_changed.close()

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        ready = asyncio.Event()
        holding = asyncio.create_task(self._hold(ready))
        await ready.wait()
        try:
            yield
        finally:
            try:
                async with asyncio.timeout(APPLICATION_END_SECONDS):
                    await self._requests.sessions.close()
            except TimeoutError:
                # Cancelling them all together would take far longer.
                _logger.info("the remaining sessions end with the process")
            else:
                holding.cancel()
                await asyncio.wait({holding})

    async def _hold(self, ready: asyncio.Event) -> None:
        async with self._library.run():
            ready.set()
            await asyncio.Event().wait()


def _known_hosts(hosts: Sequence[str], scheme: str) -> TransportSecuritySettings:
    """Refuse requests of a web page elsewhere that uses a name of its own for this address (DNS rebinding)."""
    named = (f"[{host}]" if ":" in host and not host.startswith("[") else host for host in hosts)
    names = dict.fromkeys(("127.0.0.1", "localhost", "[::1]", *named))
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=[form for name in names for form in (name, f"{name}:*")],
        allowed_origins=[form for name in names for form in (f"{scheme}://{name}", f"{scheme}://{name}:*")],
    )


GRACE_SECONDS = 5
"""Seconds that HTTP requests in flight have to finish when the gateway ends."""


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
