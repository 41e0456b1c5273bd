"""An HTTP client for MCP over streamable HTTP that keeps the facts of a failed exchange and the connection alive."""

from __future__ import annotations

import http
import json
import logging
import re
import socket
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import httpx2
from mcp_types import INTERNAL_ERROR

from callability.gateway.upstream.failure import MESSAGE_BYTES, TOO_LONG, Failure

EXCERPT_CHARACTERS = 2048
# Until a notification is delivered, the SDK sends nothing else.
NOTIFICATION_SECONDS = 5
TIMEOUT = httpx2.Timeout(connect=5, write=30, pool=10, read=None)
# Shorter than the five seconds of many servers, so that a request does not meet the end of a kept connection.
LIMITS = httpx2.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=3)
MAX_REDIRECTS = 3
NOT_MCP = "answered with something that is not MCP"
SESSION_LOST = "no longer knows the session of this connection"
# By their definition, these statuses answer a request that was not carried out.
_NOT_CARRIED_OUT = frozenset({401, 404, 405, 406, 411, 413, 415, 421, 426, 429})
# With these statuses a JSON-RPC error in the body is the word of a proxy or a guard, not of the tool's server.
_STATUS_COUNTS = frozenset({401, 403, 408, 429, 502, 503, 504})
_FRAMING = frozenset({"content-encoding", "content-length", "transfer-encoding"})
_UNSENT = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.InvalidURL,
    httpx2.PoolTimeout,
    httpx2.LocalProtocolError,
    httpx2.UnsupportedProtocol,
)
_WORDS_BY_CAUSE = (
    (ConnectionRefusedError, "refused the connection (nothing listens there)"),
    (socket.gaierror, "could not be reached: its host name was not found"),
    (ssl.SSLError, "could not be reached: no trusted TLS connection could be made"),
)

# These write URLs, session ids, headers and bodies to the log, where nobody looks for a secret.
for _name, _level in (
    ("httpx2", logging.WARNING),
    ("httpcore2", logging.WARNING),
    ("mcp.client.streamable_http", logging.CRITICAL),
    ("sse_starlette", logging.INFO),
):
    logging.getLogger(_name).setLevel(_level)


@dataclass(frozen=True, slots=True)
class HttpTarget:
    """An MCP endpoint of the streamable HTTP transport, and the headers of every request to it."""

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(slots=True)
class Exchange:
    """What came of the last HTTP request of one call or opening; `lost` asks for a new connection.

    An answer that says nothing for `seconds` is given up, whoever waits for it: a caller that has gone does not
    end its request in MCP 2025-11-25, and requests without an end would fill the pool. With None it never is.
    """

    seconds: float | None
    failure: Failure | None = None
    lost: bool = False

    def lose(self, failure: Failure) -> None:
        """Note a failure after which the connection is not to be used again."""
        self.failure, self.lost = failure, True


# Set by whoever calls; the SDK runs each request in its caller's context. An error's `data` would be easier to read
# and could be forged by the upstream.
EXCHANGE: ContextVar[Exchange | None] = ContextVar("exchange", default=None)


class HttpClient(httpx2.AsyncClient):
    """Answers a failed POST in the upstream's stead: an exception would end the connection and all its calls."""

    def __init__(self, target: HttpTarget) -> None:
        super().__init__(headers=dict(target.headers), timeout=TIMEOUT, limits=LIMITS, max_redirects=MAX_REDIRECTS)

    async def send(self, request: httpx2.Request, *args: Any, **options: Any) -> httpx2.Response:
        """Send, and note in the caller's exchange what came of it."""
        if request.method != "POST":
            return await super().send(request, *args, **options)
        # A request that follows a redirect has a stream only.
        await request.aread()
        exchange = EXCHANGE.get()
        if exchange is None or not _awaits_answer(request):
            exchange = Exchange(NOTIFICATION_SECONDS)
        limits = {**request.extensions.get("timeout", {}), "read": exchange.seconds}
        request.extensions = {**request.extensions, "timeout": limits}
        try:
            response = await super().send(request, *args, **options)
            return await _judge(request, response, exchange)
        except _TooLong:
            # The server is well, and so is the connection: what is left of the body goes with its own socket.
            exchange.failure = TOO_LONG
        except httpx2.RequestError as error:
            exchange.lose(transport_failure(error))
        return _stand_in(request)


class _TooLong(Exception):
    """A body exceeds `MESSAGE_BYTES`."""


_WORDS_BY_ERROR: tuple[tuple[type[Exception], str], ...] = (
    (httpx2.ConnectTimeout, "could not be reached in time"),
    (httpx2.PoolTimeout, "has too many calls under way"),
    (httpx2.TimeoutException, "did not answer in time"),
    (httpx2.InvalidURL, "could not be reached: its URL is not valid"),
    (httpx2.UnsupportedProtocol, "could not be reached: its URL is not http or https"),
    (httpx2.LocalProtocolError, "could not be asked: its URL or headers hold a character that is not allowed there"),
    (httpx2.ProxyError, "could not be reached through the proxy"),
    (httpx2.DecodingError, NOT_MCP),
)


class _WatchedStream(httpx2.AsyncByteStream):
    """An event stream whose early end is noted: the SDK tells it from no other error."""

    def __init__(self, stream: httpx2.AsyncByteStream, exchange: Exchange) -> None:
        self._stream = stream
        self._exchange = exchange

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        try:
            async for chunk in self._stream:
                yield chunk
        except httpx2.RequestError as error:
            self._exchange.lose(transport_failure(error))
            raise
        self._exchange.lose(Failure("closed the connection before it answered"))

    async def aclose(self) -> None:
        await self._stream.aclose()


def _awaits_answer(request: httpx2.Request) -> bool:
    message = json.loads(request.content)
    return "method" in message and "id" in message


async def _judge(request: httpx2.Request, response: httpx2.Response, exchange: Exchange) -> httpx2.Response:
    """Note what a response means; hand it on, its body read where reading it could fail."""
    exchange.failure = None
    content_type = response.headers.get("content-type", "").lower()
    if response.status_code >= 400:
        response = await _read(response, cut=True)
        exchange.failure = _status_failure(request, response)
        exchange.lost = "mcp-session-id" in request.headers and response.status_code in (400, 404)
    elif 300 <= response.status_code < 400:
        exchange.failure = Failure("answered with a redirect that is not followed", status=response.status_code)
    elif response.status_code != 202 and content_type.startswith("application/json"):
        response = await _read(response)
    elif response.status_code != 202 and content_type.startswith("text/event-stream"):
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _WatchedStream(response.stream, exchange)
    else:
        exchange.failure = Failure(NOT_MCP, status=response.status_code)
    return response


async def _read(response: httpx2.Response, *, cut: bool = False) -> httpx2.Response:
    """Return the response with its whole body, which is cut or refused beyond `MESSAGE_BYTES`."""
    body = bytearray()
    try:
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > MESSAGE_BYTES:
                if not cut:
                    raise _TooLong
                break
    finally:
        await response.aclose()
    headers = [(key, value) for key, value in response.headers.items() if key not in _FRAMING]
    return httpx2.Response(response.status_code, headers=headers, content=bytes(body), request=response.request)


def _status_failure(request: httpx2.Request, response: httpx2.Response) -> Failure | None:
    status = response.status_code
    in_session = "mcp-session-id" in request.headers
    session_unknown = in_session and status == http.HTTPStatus.NOT_FOUND
    if status not in _STATUS_COUNTS and not session_unknown and _is_rpc_error(response):
        return None
    words = SESSION_LOST if session_unknown else f"answered with HTTP status {status}"
    seconds = response.headers.get("retry-after", "")
    return Failure(
        words,
        status=status,
        retry_after=float(seconds) if seconds.isdecimal() else None,
        in_session=in_session,
        executed=status not in _NOT_CARRIED_OUT,
        body=response.text[:EXCERPT_CHARACTERS],
    )


def _is_rpc_error(response: httpx2.Response) -> bool:
    try:
        message = json.loads(response.content)
    except (ValueError, RecursionError):
        return False
    return isinstance(message, dict) and "jsonrpc" in message and isinstance(message.get("error"), dict)


def _stand_in(request: httpx2.Request) -> httpx2.Response:
    error = {"code": INTERNAL_ERROR, "message": "the exchange failed"}
    return httpx2.Response(503, json={"jsonrpc": "2.0", "id": None, "error": error}, request=request)


def transport_failure(error: Exception) -> Failure:
    """Put an error of the HTTP client into words and facts."""
    cause = _innermost(error)
    return Failure(
        _transport_words(error, cause),
        exception=type(error).__name__,
        cause=type(cause).__name__,
        errno=cause.errno if isinstance(cause, OSError) else None,
        executed=not isinstance(error, _UNSENT),
    )


def _transport_words(error: Exception, cause: BaseException) -> str:
    for kind, words in _WORDS_BY_ERROR:
        if isinstance(error, kind):
            return words
    if isinstance(error, httpx2.ConnectError):
        return next((words for kind, words in _WORDS_BY_CAUSE if isinstance(cause, kind)), "could not be reached")
    # The one case where only the library's text tells two things apart.
    if isinstance(error, httpx2.RemoteProtocolError) and not re.search("disconnected|closed connection", str(error)):
        return "answered with something that is not HTTP"
    return "closed the connection before it answered"


def _innermost(error: BaseException) -> BaseException:
    """Return the last operating system's error in the chain of causes, or the error itself."""
    found = error
    deeper: BaseException | None = error
    while deeper is not None:
        if isinstance(deeper, OSError):
            found = deeper
        first = deeper.exceptions[0] if isinstance(deeper, BaseExceptionGroup) else None
        deeper = first or deeper.__cause__ or deeper.__context__
    return found
