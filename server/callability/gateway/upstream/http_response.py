"""Reads an HTTP response where reading could fail, and passes on what the SDK can accept.

A server may send any byte but NUL and line breaks. The SDK and the HTTP client copy headers and cookies as ASCII, and
decode a body with any codec that Python knows: with other bytes, or a codec that is none for text, they raise.
"""

from __future__ import annotations

import http
import json
import logging
import re
import time
import urllib.request
from collections.abc import AsyncGenerator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.cookiejar import Cookie, CookieJar, DefaultCookiePolicy
from typing import Any

import anyio
import httpx2
from anyio.abc import AsyncResource

from callability.contract.timeout_signature import timed_out_on_the_way
from callability.contract.vocabulary import LoadFailure, LoadPhase
from callability.gateway.upstream.failure import (
    CLOSED,
    MESSAGE_BYTES,
    NOT_MCP,
    Failure,
    ends_connection,
    transport_failure,
)
from callability.gateway.upstream.messages import Exchange, PiecesWithoutHalves, without_halves

_ENCODING = "content-encoding"


class TooLong(httpx2.RequestError):
    """A body exceeds `MESSAGE_BYTES`."""

    def __init__(self) -> None:
        super().__init__(f"the body has more than {MESSAGE_BYTES:,} bytes")


def limit_body(response: httpx2.Response) -> None:
    """Let a body be read without its content encoding, and up to `MESSAGE_BYTES`: reading more raises `TooLong`."""
    headers = {name: value for name, value in response.headers.items() if name == _ENCODING}
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    response.stream = _LimitedStream(httpx2.Response(response.status_code, headers=headers, stream=response.stream))
    # A few kilobytes can decode to gigabytes, so the decoded body is what is counted.
    response.headers.pop(_ENCODING, None)


class _LimitedStream(httpx2.AsyncByteStream):
    def __init__(self, encoded: httpx2.Response) -> None:
        self._encoded = encoded

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        size = 0
        async for piece in self._encoded.aiter_bytes():
            size += len(piece)
            if size > MESSAGE_BYTES:
                raise TooLong
            yield piece

    async def aclose(self) -> None:
        await self._encoded.aclose()


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


class Handshake:
    """For the `trace` extension of a request: closes the socket of a handshake that failed, or was cancelled.

    The library closes it if the handshake raises an `Exception`; if the handshake is cancelled, it leaves the socket to
    the garbage collector.
    """

    def __init__(self) -> None:
        self._socket: AsyncResource | None = None

    async def note_event(self, event: str, info: Mapping[str, Any]) -> None:
        """Take an event of a connection, with its details."""
        if event.endswith(".connect_tcp.complete"):
            self._socket = info["return_value"]
        elif event.endswith(".start_tls.failed") and self._socket is not None:
            await anyio.aclose_forcefully(self._socket)


EXCERPT_CHARACTERS = 2048
BUSY_SECONDS = 0.05
"""An event that takes longer to read is followed by a pause as long as that."""
MAX_PAUSE_SECONDS = 1.0
"""Unlike reading, waiting for an agent may take long, and needs no pause."""
# The status is known already; the rest of an error is not worth a long wait.
ERROR_BODY_SECONDS = 5
SESSION_LOST = "no longer knows the session of this connection"
_BAD_SESSION = "named a session with characters that MCP does not allow"
_REDIRECT = "answered with a redirect that is not followed"
# By their definition, these statuses answer a request that was not carried out.
_NOT_CARRIED_OUT = frozenset({401, 404, 405, 406, 411, 413, 415, 421, 426, 429})
# With these statuses a JSON-RPC error in the body comes from a proxy or a guard, not from the tool's server.
_STATUS_COUNTS = frozenset({401, 403, 408, 429, 502, 503, 504})
_EXPLAINED = ("tools/list", "tools/call")
"""The methods whose answers are kept, so that it can be said what is wrong with one that the SDK cannot read."""
_FRAMING = frozenset({b"content-encoding", b"content-length", b"transfer-encoding"})
_SESSION = "mcp-session-id"
_PIECE_BYTES = 1024
_logger = logging.getLogger("callability.gateway.upstream")


async def judge_response(
    response: httpx2.Response, request: httpx2.Request, method: str | None, exchange: Exchange
) -> httpx2.Response | None:
    """Note in the exchange what a response means, and return it for the SDK; None if it is unusable.

    `method` is that of the JSON-RPC request.

    Raises:
        TooLong: the body of an answer is.
        httpx2.RequestError: the body of an answer could not be read.
    """
    exchange.status = response.status_code
    content_type = response.headers.get("content-type", "").lower()
    if response.status_code >= 300:
        return await _judged_error(response, request, exchange)
    if method == "initialize" and _SESSION.encode() in left_out(response):
        await response.aclose()
        exchange.failure = Failure(_BAD_SESSION, kind=LoadFailure.NOT_MCP, phase=LoadPhase.RESPONSE)
        return None
    if response.status_code != 202 and content_type.startswith("application/json"):
        body = without_halves(await _read(response))
        exchange.text += body if method in _EXPLAINED else b""
        return _answer(response, content=body)
    if response.status_code != 202 and content_type.startswith("text/event-stream"):
        kept = exchange.text if method == "tools/list" else None
        return _answer(response, stream=_Events(response, exchange, kept))
    exchange.failure = Failure(NOT_MCP, status=response.status_code, kind=LoadFailure.NOT_MCP, phase=LoadPhase.RESPONSE)
    return response


async def _judged_error(response: httpx2.Response, request: httpx2.Request, exchange: Exchange) -> httpx2.Response:
    """Use the status line, and as much of the body as can be read (L-1)."""
    body = _ErrorBody(response)
    exchange.so_far = lambda: _failure(request, response, body.decode())
    await body.read()
    exchange.so_far = None
    content = body.decode()
    exchange.failure = _failure(request, response, content)
    exchange.lost = _SESSION in request.headers and response.status_code in (400, 404)
    return _answer(response, content=content)


class _ErrorBody:
    """The body of an error: what arrives of it in time, complete or not."""

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response
        self._raw = bytearray()

    async def read(self) -> None:
        """Read on until the end, a limit of time or length, or an error of the transport."""
        with anyio.move_on_after(ERROR_BODY_SECONDS):
            try:
                async for chunk in self._response.aiter_raw():
                    self._raw += chunk
                    if len(self._raw) > MESSAGE_BYTES:
                        break
            except httpx2.RequestError as error:
                _logger.debug("the body of an HTTP status %d ended early (%s)", self._response.status_code, error)
        await self._response.aclose()

    def decode(self) -> bytes:
        """Return what was read, without its content encoding if it really has one."""
        raw = bytes(self._raw)
        encoding = self._response.headers.get("content-encoding")
        if encoding is None:
            return raw
        pieces = (raw[start : start + _PIECE_BYTES] for start in range(0, len(raw), _PIECE_BYTES))
        encoded = httpx2.Response(self._response.status_code, headers={"content-encoding": encoding}, content=pieces)
        body = bytearray()
        try:
            for piece in encoded.iter_bytes():
                body += piece
                if len(body) > MESSAGE_BYTES:
                    break
        except httpx2.DecodingError:
            return bytes(body) or raw
        return bytes(body)


class HurriedStream(httpx2.AsyncByteStream):
    """The body of an answer to `server/discover`, which has to arrive in time, even if it comes in many pieces.

    A stream of events that is late ends with `refusal`, in place of the answer: without one, the SDK would wait on.
    """

    def __init__(self, stream: httpx2.AsyncByteStream, exchange: Exchange, seconds: float, refusal: bytes) -> None:
        self._stream = stream
        self._exchange = exchange
        self._until = time.monotonic() + seconds
        self._refusal = refusal

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        is_late = False
        try:
            async for chunk in self._stream:
                if is_late := time.monotonic() > self._until:
                    break
                yield chunk
        except httpx2.ReadTimeout:
            is_late = True
        if not is_late:
            return
        self._exchange.unanswered = True
        if not self._refusal:
            raise httpx2.ReadTimeout("")
        yield self._refusal

    async def aclose(self) -> None:
        """Close the body."""
        await self._stream.aclose()


class _Events(httpx2.AsyncByteStream):
    """An event stream that notes an early end, which the SDK does not distinguish; `kept` takes what arrives."""

    def __init__(self, response: httpx2.Response, exchange: Exchange, kept: bytearray | None) -> None:
        self._response = response
        self._exchange = exchange
        self._kept = kept

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        pieces = PiecesWithoutHalves()
        try:
            async for piece in self._response.aiter_bytes():
                certain = pieces.certain(piece)
                if self._kept is not None and len(self._kept) < MESSAGE_BYTES:
                    self._kept += certain
                began = time.monotonic()
                yield certain
                if (busy := time.monotonic() - began) > BUSY_SECONDS:
                    # The SDK has read an event: a server that writes large ones without end leaves others their time.
                    await anyio.sleep(min(busy, MAX_PAUSE_SECONDS))
            yield pieces.rest()
        except httpx2.RequestError as error:
            note(error, self._exchange)
            raise
        self._exchange.lose(CLOSED)

    async def aclose(self) -> None:
        await self._response.aclose()


def note(error: httpx2.RequestError, exchange: Exchange) -> None:
    """Note an error of the transport; only a failure of the network ends the connection."""
    exchange.failure = transport_failure(error)
    exchange.lost = ends_connection(error, exchange.failure)


async def _read(response: httpx2.Response) -> bytes:
    """Return the whole body of an answer."""
    body = bytearray()
    try:
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > MESSAGE_BYTES:
                raise TooLong
    finally:
        await response.aclose()
    return bytes(body)


def _answer(response: httpx2.Response, **body: Any) -> httpx2.Response:
    """Return a response with another body, which has no content encoding."""
    headers = [(name, value) for name, value in response.headers.raw if name.lower() not in _FRAMING]
    answer = httpx2.Response(response.status_code, headers=headers, request=response.request, **body)
    answer.next_request = response.next_request
    return answer


def _failure(request: httpx2.Request, response: httpx2.Response, body: bytes) -> Failure | None:
    """Return what a status means; None if the body is the server's own answer in JSON-RPC."""
    status = response.status_code
    in_session = _SESSION in request.headers
    session_unknown = in_session and status == http.HTTPStatus.NOT_FOUND
    if 300 <= status < 400:
        return Failure(_REDIRECT, status=status, kind=LoadFailure.HTTP_STATUS, phase=LoadPhase.RESPONSE)
    if status not in _STATUS_COUNTS and not session_unknown and _is_rpc_error(body):
        return None
    text = body[: 4 * EXCERPT_CHARACTERS].decode("utf-8", "replace")[:EXCERPT_CHARACTERS]
    words = SESSION_LOST if session_unknown else f"answered with HTTP status {status}"
    return Failure(
        words,
        status=status,
        retry_after=_seconds_of(response.headers.get("retry-after", "")),
        in_session=in_session,
        executed=status not in _NOT_CARRIED_OUT and (status != http.HTTPStatus.FORBIDDEN or timed_out_on_the_way(text)),
        kind=LoadFailure.HTTP_STATUS,
        phase=LoadPhase.RESPONSE,
        body=text,
    )


def _seconds_of(retry_after: str) -> float | None:
    """Return for how long a server asks not to be called, in seconds or by a date."""
    if retry_after.isdecimal():
        return float(retry_after)
    try:
        date = parsedate_to_datetime(retry_after).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return max(0.0, (date - datetime.now(UTC)).total_seconds())


def _is_rpc_error(body: bytes) -> bool:
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(message, dict) and "jsonrpc" in message and isinstance(message.get("error"), dict)
