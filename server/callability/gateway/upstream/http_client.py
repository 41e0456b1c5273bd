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
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx2
from mcp_types import INTERNAL_ERROR

from callability.gateway.upstream.authorization import Authorization, AuthorizationFailed
from callability.gateway.upstream.failure import MESSAGE_BYTES, TOO_LONG, Failure
from callability.gateway.upstream.handshake import Handshake
from callability.gateway.upstream.trust import trusted
from callability.vocabulary import LoadFailure, LoadPhase

EXCERPT_CHARACTERS = 2048
# Until a notification is delivered, the SDK sends nothing else.
NOTIFICATION_SECONDS = 5
TIMEOUT = httpx2.Timeout(connect=5, write=30, pool=10, read=None)
# Shorter than the five seconds of many servers, so that a request does not meet the end of a kept connection.
LIMITS = httpx2.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=3)
MAX_REDIRECTS = 3
# The client counts the requests of an authorization as redirects of the request that needed it.
AUTHORIZATION_REQUESTS = 12
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
_Told = tuple[str, LoadFailure, LoadPhase]
"""The words of a failure, what failed, and how far it had come."""

_UNREACHED: _Told = ("could not be reached", LoadFailure.OTHER, LoadPhase.CONNECT)
_BY_CAUSE: tuple[tuple[type[Exception], _Told], ...] = (
    (
        ConnectionRefusedError,
        ("refused the connection (nothing listens there)", LoadFailure.REFUSED, LoadPhase.CONNECT),
    ),
    (
        socket.gaierror,
        ("could not be reached: its host name was not found", LoadFailure.NAME_NOT_FOUND, LoadPhase.RESOLVE),
    ),
    (ssl.SSLError, ("could not be reached: no trusted TLS connection could be made", LoadFailure.TLS, LoadPhase.TLS)),
    (TimeoutError, ("could not be reached in time", LoadFailure.TIMEOUT, LoadPhase.CONNECT)),
    (ConnectionResetError, ("could not be reached", LoadFailure.RESET, LoadPhase.CONNECT)),
)

# These write URLs, session ids, headers, bodies and messages to the log, where nobody looks for a secret.
for _name, _level in (
    ("httpx2", logging.WARNING),
    ("httpcore2", logging.WARNING),
    ("mcp.client.streamable_http", logging.CRITICAL),
    # The SDK's client session.
    ("client", logging.CRITICAL),
    ("sse_starlette", logging.INFO),
):
    logging.getLogger(_name).setLevel(_level)


@dataclass(frozen=True, slots=True)
class HttpTarget:
    """An MCP endpoint of the streamable HTTP transport, the headers of every request to it, and how it is authorized.

    `secrets` are masked wherever the server says them, beside those that are found in headers and URL.
    """

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    authorization: Authorization | None = field(default=None, repr=False)


@dataclass(slots=True)
class Exchange:
    """What came of the last HTTP request of one call or opening; `lost` asks for a new connection, `status` is that of
    the last answer.

    An answer that says nothing for `seconds` is given up, whoever waits for it: a caller that has gone does not
    end its request in MCP 2025-11-25, and requests without an end would fill the pool. With None it never is.
    """

    seconds: float | None
    failure: Failure | None = None
    lost: bool = False
    status: int | None = None

    def lose(self, failure: Failure) -> None:
        """Note a failure after which the connection is not to be used again."""
        self.failure, self.lost = failure, True


# Set by whoever calls; the SDK runs each request in its caller's context. An error's `data` would be easier to read
# and could be forged by the upstream.
EXCHANGE: ContextVar[Exchange | None] = ContextVar("exchange", default=None)


class HttpClient(httpx2.AsyncClient):
    """Answers a failed POST in the upstream's stead: an exception would end the connection and all its calls."""

    def __init__(self, target: HttpTarget) -> None:
        super().__init__(
            verify=trusted(),
            headers=dict(target.headers),
            auth=target.authorization,
            timeout=TIMEOUT,
            limits=LIMITS,
            max_redirects=MAX_REDIRECTS + (AUTHORIZATION_REQUESTS if target.authorization else 0),
        )

    async def send(self, request: httpx2.Request, *args: Any, **options: Any) -> httpx2.Response:
        """Send, and note in the caller's exchange what came of it."""
        request.extensions = {**request.extensions, "trace": Handshake().heard}
        if request.method != "POST":
            try:
                return await super().send(request, *args, **options)
            except AuthorizationFailed:
                return httpx2.Response(http.HTTPStatus.UNAUTHORIZED, request=request)
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
        except AuthorizationFailed as error:
            exchange.lose(error.failure)
        except httpx2.RequestError as error:
            exchange.lose(transport_failure(error))
        return _stand_in(request)


class _TooLong(Exception):
    """A body exceeds `MESSAGE_BYTES`."""


_BY_ERROR: tuple[tuple[type[Exception], _Told], ...] = (
    (httpx2.ConnectTimeout, ("could not be reached in time", LoadFailure.TIMEOUT, LoadPhase.CONNECT)),
    (httpx2.PoolTimeout, ("has too many calls under way", LoadFailure.TIMEOUT, LoadPhase.REQUEST)),
    (httpx2.WriteTimeout, ("did not answer in time", LoadFailure.TIMEOUT, LoadPhase.REQUEST)),
    (httpx2.TimeoutException, ("did not answer in time", LoadFailure.TIMEOUT, LoadPhase.RESPONSE)),
    (httpx2.InvalidURL, ("could not be reached: its URL is not valid", LoadFailure.BAD_CONFIG, LoadPhase.CONFIG)),
    (
        httpx2.UnsupportedProtocol,
        ("could not be reached: its URL is not http or https", LoadFailure.BAD_CONFIG, LoadPhase.CONFIG),
    ),
    (
        httpx2.LocalProtocolError,
        (
            "could not be asked: its URL or headers hold a character that is not allowed there",
            LoadFailure.BAD_CONFIG,
            LoadPhase.CONFIG,
        ),
    ),
    (httpx2.ProxyError, ("could not be reached through the proxy", LoadFailure.OTHER, LoadPhase.CONNECT)),
    (httpx2.DecodingError, (NOT_MCP, LoadFailure.NOT_MCP, LoadPhase.RESPONSE)),
)
CLOSED = Failure("closed the connection before it answered", kind=LoadFailure.CLOSED, phase=LoadPhase.RESPONSE)


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
        self._exchange.lose(CLOSED)

    async def aclose(self) -> None:
        await self._stream.aclose()


def _awaits_answer(request: httpx2.Request) -> bool:
    message = json.loads(request.content)
    return "method" in message and "id" in message


async def _judge(request: httpx2.Request, response: httpx2.Response, exchange: Exchange) -> httpx2.Response:
    """Note what a response means; hand it on, its body read where reading it could fail."""
    exchange.failure, exchange.status = None, response.status_code
    content_type = response.headers.get("content-type", "").lower()
    if response.status_code >= 400:
        response = await _read(response, cut=True)
        exchange.failure = _status_failure(request, response)
        exchange.lost = "mcp-session-id" in request.headers and response.status_code in (400, 404)
    elif 300 <= response.status_code < 400:
        exchange.failure = Failure(
            "answered with a redirect that is not followed",
            status=response.status_code,
            kind=LoadFailure.HTTP_STATUS,
            phase=LoadPhase.RESPONSE,
        )
    elif response.status_code != 202 and content_type.startswith("application/json"):
        response = await _read(response)
    elif response.status_code != 202 and content_type.startswith("text/event-stream"):
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _WatchedStream(response.stream, exchange)
    else:
        exchange.failure = Failure(
            NOT_MCP, status=response.status_code, kind=LoadFailure.NOT_MCP, phase=LoadPhase.RESPONSE
        )
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
    return Failure(
        words,
        status=status,
        retry_after=_seconds_of(response.headers.get("retry-after", "")),
        in_session=in_session,
        executed=status not in _NOT_CARRIED_OUT,
        kind=LoadFailure.HTTP_STATUS,
        phase=LoadPhase.RESPONSE,
        body=response.text[:EXCERPT_CHARACTERS],
    )


def _seconds_of(retry_after: str) -> float | None:
    """Return how long a server asks to be left alone: it says so in seconds, or by a date."""
    if retry_after.isdecimal():
        return float(retry_after)
    try:
        date = parsedate_to_datetime(retry_after).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return max(0.0, (date - datetime.now(UTC)).total_seconds())


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
    """Put an error of the HTTP client into words and facts; of several addresses each may have failed in its way."""
    return Failure.together(_transport_failure(error, cause) for cause in _innermost(error))


def _transport_failure(error: Exception, cause: BaseException) -> Failure:
    words, kind, phase = _told(error, cause)
    return Failure(
        words,
        exception=type(error).__name__,
        cause=type(cause).__name__,
        errno=cause.errno if isinstance(cause, OSError) else None,
        executed=not isinstance(error, _UNSENT),
        kind=kind,
        phase=phase,
    )


def _told(error: Exception, cause: BaseException) -> _Told:
    for kind, told in _BY_ERROR:
        if isinstance(error, kind):
            return told
    if isinstance(error, httpx2.ConnectError):
        return next((told for kind, told in _BY_CAUSE if isinstance(cause, kind)), _UNREACHED)
    # The one case where only the library's text tells two things apart.
    if isinstance(error, httpx2.RemoteProtocolError) and not re.search("disconnected|closed connection", str(error)):
        return "answered with something that is not HTTP", LoadFailure.NOT_MCP, LoadPhase.RESPONSE
    phase = LoadPhase.REQUEST if isinstance(error, httpx2.WriteError) else LoadPhase.RESPONSE
    return CLOSED.words, LoadFailure.RESET if isinstance(cause, ConnectionResetError) else LoadFailure.CLOSED, phase


def _innermost(error: BaseException) -> tuple[BaseException, ...]:
    """Return the operating system's errors at the ends of the causes, of which a group has several, or the error."""
    group = error.exceptions if isinstance(error, BaseExceptionGroup) else (error.__cause__ or error.__context__,)
    ends = (end for deeper in group if deeper is not None for end in _innermost(deeper))
    return tuple(end for end in ends if isinstance(end, OSError)) or (error,)
