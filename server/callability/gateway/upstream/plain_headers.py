"""Keeps only those headers of a response that every reader of them can handle.

A server may send any byte but NUL and line breaks. The SDK and the HTTP client copy headers and cookies as ASCII, and
decode a body with any codec that Python knows: with other bytes, or a codec that is none for text, they raise.
"""

from __future__ import annotations

import re
import urllib.request
from http.cookiejar import Cookie, CookieJar, DefaultCookiePolicy

import httpx2

_LEFT_OUT = "callability.left_out"
_PLAIN = re.compile(rb"[\t\x20-\x7e]*")


def is_plain(value: bytes) -> bool:
    """Say whether a header value consists of printable ASCII characters, spaces and tabs."""
    return _PLAIN.fullmatch(value) is not None


async def keep_plain_headers(response: httpx2.Response) -> None:
    """Leave out headers that are not plain, and the parameters of the content type: MCP is always UTF-8."""
    headers = [(name, _without_parameters(name, value)) for name, value in response.headers.raw]
    response.headers = httpx2.Headers([(name, value) for name, value in headers if is_plain(value)])
    response.extensions[_LEFT_OUT] = frozenset(name.lower() for name, value in headers if not is_plain(value))


def left_out(response: httpx2.Response) -> frozenset[bytes]:
    """Return the names, in lower case, of the headers of a response that were not plain."""
    names: frozenset[bytes] = response.extensions.get(_LEFT_OUT, frozenset())
    return names


def plain_cookies() -> CookieJar:
    """Return a cookie jar that takes no cookie that could not be sent back."""
    return CookieJar(_PlainCookies())


def _without_parameters(name: bytes, value: bytes) -> bytes:
    return value.partition(b";")[0].strip() if name.lower() == b"content-type" else value


class _PlainCookies(DefaultCookiePolicy):
    def set_ok(self, cookie: Cookie, request: urllib.request.Request) -> bool:
        """Say whether a cookie is taken."""
        parts = (cookie.name, cookie.value, cookie.path, cookie.domain, cookie.port)
        return super().set_ok(cookie, request) and all(
            part is None or (is_plain(part.encode("utf-8", "replace")) and part == part.strip()) for part in parts
        )
