"""Pages on loopback: only the page of this server may call it, even if the name of another site resolves to it."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from html import escape
from http import HTTPStatus
from pathlib import Path

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
