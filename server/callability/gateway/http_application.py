"""The gateway over HTTP: with a bearer token as soon as an agent has one, and open as long as none has."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from mcp.server.auth.settings import AuthSettings
from pydantic import AnyHttpUrl
from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send

from callability.gateway.agents import Gateways
from callability.gateway.mcp_server import mcp_server


class HttpApplication:
    """An ASGI application; whether tokens are asked for is looked at for each request, since an edit may change it.

    A session that was opened without a token is not known where one is asked for.
    """

    def __init__(self, gateways: Gateways, host: str) -> None:
        self._gateways = gateways
        self._open = mcp_server(gateways).streamable_http_app(host=host)
        # The library wants an issuer; without a resource URL no client is sent there, and 401 is the end of it.
        settings = AuthSettings(issuer_url=AnyHttpUrl("http://127.0.0.1/none"), resource_server_url=None)
        self._guarded = mcp_server(gateways).streamable_http_app(host=host, auth=settings, token_verifier=gateways)
        self._life = Starlette(lifespan=self._lifespan)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request on to the application that it is for."""
        if scope["type"] == "lifespan":
            application = self._life
        else:
            application = self._guarded if self._gateways.guarded else self._open
        await application(scope, receive, send)

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for application in (self._open, self._guarded):
                await stack.enter_async_context(application.router.lifespan_context(application))
            yield
