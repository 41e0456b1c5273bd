"""The page on loopback to which a provider sends the person back, for one authorization."""

from __future__ import annotations

import asyncio
import socket

from mcp.shared.auth import AuthorizationCodeResult
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

from callability.uvicorn_server import UvicornServer

HOST = "127.0.0.1"
PATH = "/callback"
GRACE = 1
"""Seconds for sending the page completely."""
_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'",
}
_PAGE = "<!doctype html><html lang=en><meta charset=utf-8><title>callability</title><p>{}</p></html>"


class ProviderRefused(Exception):
    """The provider sent the person back without a code; `declined` says that the person refused."""

    def __init__(self, *, declined: bool) -> None:
        super().__init__("the provider gave no code")
        self.declined = declined


class Redirect:
    """Listens from the start, so that its address is known; serves while an authorization is pending."""

    def __init__(self, port: int | None) -> None:
        self._socket = socket.create_server((HOST, port or 0))
        self._came = asyncio.get_running_loop().create_future()
        self._state = ""
        self._server = UvicornServer(
            Starlette(routes=[Route(PATH, self._page)]),
            log_level="warning",
            access_log=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=GRACE,
        )
        self._serving: asyncio.Task[None] | None = None

    @property
    def uri(self) -> str:
        """The address that the provider sends the person back to."""
        return f"http://{HOST}:{self._socket.getsockname()[1]}{PATH}"

    async def awaited(self, state: str) -> AuthorizationCodeResult:
        """Serve until the person comes back with this state, and return what the provider sent with them.

        Raises:
            ProviderRefused: it sent no code.
        """
        self._state = state
        if self._serving is None:
            self._serving = asyncio.create_task(self._server.serve(sockets=[self._socket]), name="redirect")
        await asyncio.wait({self._came})
        result: AuthorizationCodeResult = self._came.result()
        return result

    async def close(self) -> None:
        """Stop listening, and return when nothing is left; a page that is being sent is sent completely."""
        if self._serving is not None:
            self._server.should_exit = True
            await asyncio.wait({self._serving})
        self._socket.close()
        # An error after the last caller has gone is not worth a log line.
        _ = self._came.done() and self._came.exception()

    async def _page(self, request: Request) -> HTMLResponse:
        given = request.query_params
        if not self._state or given.get("state") != self._state:
            return _page("This address belongs to no authorization that is under way.", 400)
        code, error = given.get("code"), given.get("error")
        if not self._came.done():
            if code and not error:
                self._came.set_result(AuthorizationCodeResult(code=code, state=self._state, iss=given.get("iss")))
            else:
                self._came.set_exception(ProviderRefused(declined=error == "access_denied"))
        outcome = "The server is not authorized." if error or not code else "The authorization has arrived."
        return _page(f"{outcome} You can close this page and go back to your agent.", 200)


def _page(text: str, status: int) -> HTMLResponse:
    return HTMLResponse(_PAGE.format(text), status, _HEADERS)
