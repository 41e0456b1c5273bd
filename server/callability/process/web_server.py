"""HTTP servers, each on a listener of its own until signals ask the process to stop, and pages on loopback.

Only the page of this server may call it, even if the name of another site resolves to it.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
import signal
import socket
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from html import escape
from http import HTTPStatus
from pathlib import Path
from typing import Any

import uvicorn
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class PageError(Exception):
    """An error with a code and an HTTP status; its text is a sentence for the page."""

    code = "error"
    status = HTTPStatus.INTERNAL_SERVER_ERROR


class Elsewhere(PageError):
    """The request comes from another page."""

    code = "elsewhere"
    status = HTTPStatus.FORBIDDEN


def _error_response(error: PageError) -> JSONResponse:
    """Return code and sentence as JSON, with the HTTP status of the error."""
    return JSONResponse({"code": error.code, "sentence": str(error)}, error.status)


async def _answer_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, PageError)
    return _error_response(error)


ERROR_HANDLERS = {PageError: _answer_error}
"""How an application answers with an error."""

PAGE_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""The media types of the files of a page, by their endings."""
TOKEN_HEADER = "callability-token"
_NONCE = "callability.nonce"
"""The key in the scope of a request under which the page finds the nonce of its style sheets."""
_OWN = frozenset({"same-origin", "none"})
"""What a browser says of a request of the page itself, or of the person at the browser."""
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{}'; img-src 'self'; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script';"
    " trusted-types 'none'"
)
"""What the page may do. The editor adds style sheets of its own, which have the nonce."""
_HEADERS = {
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


def page_endpoints(files: Iterable[Path], token: str) -> dict[str, Callable[[Request], Awaitable[Response]]]:
    """Return what serves each file of a page, by its path; `index.html` is at `/`, and has the token and the nonce."""
    return {"/" if file.name == "index.html" else f"/{file.name}": _endpoint(file, token) for file in files}


def _endpoint(file: Path, token: str) -> Callable[[Request], Awaitable[Response]]:
    content, is_page = file.read_bytes(), file.suffix == ".html"
    if is_page:
        content = content.replace(b"{token}", escape(token).encode())

    async def endpoint(request: Request) -> Response:
        nonce: str = request.scope[_NONCE]
        sent = content.replace(b"{nonce}", nonce.encode()) if is_page else content
        return Response(sent, media_type=PAGE_TYPES[file.suffix])

    return endpoint


class PageGuard:
    """An ASGI application round another: it refuses what comes from elsewhere, and says what the page may do.

    A request names this server by one of the `hosts`, so that another name that leads here (DNS rebinding) opens
    nothing. What is posted comes from this origin, and has the token that is in the page.
    """

    def __init__(self, application: ASGIApp, hosts: Sequence[str], token: str) -> None:
        self._application = application
        self._hosts = frozenset(hosts)
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request on, or refuse it."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return

        nonce = scope[_NONCE] = secrets.token_urlsafe(16)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update({"content-security-policy": _POLICY.format(nonce), **_HEADERS})
            await send(message)

        refused = next(self._refusals(scope["method"], scope["path"], Headers(scope=scope)), None)
        application = _error_response(refused) if refused else self._application
        await application(scope, receive, send_with_headers)

    def _refusals(self, method: str, path: str, headers: Headers) -> Iterator[PageError]:
        host, origin = headers.get("host", ""), headers.get("origin")
        if host not in self._hosts:
            yield Elsewhere("this server has another name")
        if path != "/" and headers.get("sec-fetch-site", "none") not in _OWN:
            yield Elsewhere("this request comes from another site")
        if method in {"GET", "HEAD"}:
            return
        if origin is not None and origin != f"http://{host}":
            yield Elsewhere("this request comes from another site")
        if not hmac.compare_digest(headers.get(TOKEN_HEADER, "").encode(), self._token.encode()):
            yield Elsewhere("this page is of another start of the server: reload it")


REPEAT_SECONDS = 0.25
"""A signal sooner after the first one is the same one, sent twice: a terminal and a parent process both send it."""
CUT_SECONDS = 1
"""Seconds in which the requests that are cut off end their answers."""
_logger = logging.getLogger(__name__)


class StopSignals:
    """What signals request: the first one to stop, and another one to stop at once."""

    def __init__(self, *numbers: signal.Signals) -> None:
        self.requested = asyncio.Event()
        self.at_once = asyncio.Event()
        self._first: float | None = None
        for number in numbers:
            asyncio.get_running_loop().add_signal_handler(number, self._receive)

    def _receive(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._first is None:
            self._first = now
            self.requested.set()
        elif now - self._first >= REPEAT_SECONDS:
            self.at_once.set()


class UvicornServer(uvicorn.Server):
    """A server for an application, with the options of uvicorn; it leaves signals to the process."""

    def __init__(self, application: Any, **options: Any) -> None:
        # Under uvloop a child's pipe stays open in other children, so its end goes unnoticed.
        super().__init__(uvicorn.Config(application, log_config=None, loop="asyncio", **options))

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none: `StopSignals` does, for all that the process runs."""
        yield

    async def serve_until(
        self,
        listener: socket.socket,
        signals: StopSignals,
        grace_seconds: float,
        stopping: Callable[[], None] = lambda: None,
    ) -> None:
        """Serve until a signal comes. Requests in flight then have `grace_seconds`, unless another signal comes.

        `stopping` is called at the first signal.
        """
        serving = asyncio.create_task(self.serve(sockets=[listener]))
        await _first_of(serving, signals.requested.wait())
        stopping()
        self.should_exit = True
        await _first_of(serving, signals.at_once.wait(), asyncio.sleep(grace_seconds))
        if not serving.done():
            await self._cut("another signal came" if signals.at_once.is_set() else f"{grace_seconds} s are over")
        await serving

    async def _cut(self, why: str) -> None:
        """End the requests in flight, and the connections whose client does not read."""
        tasks = set(self.server_state.tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            _logger.warning("%d requests are cut off: %s", len(tasks), why)
            await asyncio.wait(tasks, timeout=CUT_SECONDS)
        for connection in tuple(self.server_state.connections):
            connection.transport.abort()


async def _first_of(serving: asyncio.Task[None], *others: Coroutine[Any, Any, object]) -> None:
    """Wait until the server has ended, or one of the others has."""
    waiting = [asyncio.create_task(other) for other in others]
    await asyncio.wait({serving, *waiting}, return_when=asyncio.FIRST_COMPLETED)
    for each in waiting:
        each.cancel()
