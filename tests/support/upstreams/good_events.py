"""The well behaved server by the SDK's own HTTP+SSE, under `/sse`."""

from __future__ import annotations

from typing import Any

import uvicorn
from mcp.server.sse import SseServerTransport
from starlette.applications import Starlette
from starlette.routing import Mount, Route
from starlette.types import Receive, Scope, Send

from support.upstreams import good_stdio


def event_server() -> uvicorn.Server:
    """Return what serves it; a test runs it in a task or in a thread."""
    events = SseServerTransport("/messages/")

    async def stream(scope: Scope, receive: Receive, send: Send) -> None:
        async with events.connect_sse(scope, receive, send) as (incoming, outgoing):
            server = good_stdio.build()
            await server.run(incoming, outgoing, server.create_initialization_options())

    app = Starlette(routes=[Mount("/messages/", events.handle_post_message), Route("/sse", _Get(stream))])
    return uvicorn.Server(uvicorn.Config(app, log_config=None, ws="none", timeout_graceful_shutdown=1))


class _Get:
    """Answers GET alone."""

    def __init__(self, application: Any) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "GET":
            await self._application(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 405, "headers": []})
        await send({"type": "http.response.body"})
