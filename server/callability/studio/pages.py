"""The files of the page, with the token that POST requests need, and the nonce of the editor's style sheets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from html import escape
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from callability.studio.guard import NONCE

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_TOKEN, _NONCE = b"{token}", b"{nonce}"


def page_files(token: str) -> list[Route]:
    """Return a route for each file of the page; the page itself is at `/`."""
    directory = Path(__file__).parent / "page"
    files = [path for path in sorted(directory.iterdir()) if path.suffix in _TYPES]
    return [Route("/" if path.name == "index.html" else f"/{path.name}", _endpoint(path, token)) for path in files]


def _endpoint(path: Path, token: str) -> Callable[[Request], Awaitable[Response]]:
    content = path.read_bytes()
    if path.suffix == ".html":
        content = content.replace(_TOKEN, escape(token).encode())

    async def endpoint(request: Request) -> Response:
        nonce: str = request.scope[NONCE]
        return Response(
            content.replace(_NONCE, nonce.encode()) if path.suffix == ".html" else content,
            media_type=_TYPES[path.suffix],
        )

    return endpoint
