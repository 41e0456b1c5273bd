"""From an error of the HTTP client to a failure: its words, what failed, and how far the exchange had come."""

from __future__ import annotations

import re
import socket
import ssl

import httpx2

from callability.contract.vocabulary import LoadFailure, LoadPhase
from callability.gateway.upstream.failure import CLOSED, Failure

_UNSENT = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.InvalidURL,
    httpx2.PoolTimeout,
    httpx2.LocalProtocolError,
    httpx2.UnsupportedProtocol,
)
_Facts = tuple[str, LoadFailure, LoadPhase]
"""The words of a failure, what failed, and how far it had come."""
_GONE: _Facts = (CLOSED.words, LoadFailure.CLOSED, LoadPhase.REQUEST)
# A name server that cannot be asked, as on a machine without a network, may know the name later.
_UNRESOLVED: _Facts = (
    "could not be reached: its host name could not be looked up for now",
    LoadFailure.TIMEOUT,
    LoadPhase.RESOLVE,
)
_UNREACHED: _Facts = ("could not be reached", LoadFailure.OTHER, LoadPhase.CONNECT)
_BY_CAUSE: tuple[tuple[type[Exception], _Facts], ...] = (
    (
        ConnectionRefusedError,
        ("refused the connection (nothing listens there)", LoadFailure.REFUSED, LoadPhase.CONNECT),
    ),
    (
        socket.gaierror,
        ("could not be reached: its host name was not found", LoadFailure.NAME_NOT_FOUND, LoadPhase.RESOLVE),
    ),
    # The peer accepted, and went away in the handshake: that is no fault of its certificate.
    (ssl.SSLEOFError, _GONE),
    (ssl.SSLWantReadError, _GONE),
    (ssl.SSLWantWriteError, _GONE),
    (ssl.SSLError, ("could not be reached: no trusted TLS connection could be made", LoadFailure.TLS, LoadPhase.TLS)),
    (TimeoutError, ("could not be reached in time", LoadFailure.TIMEOUT, LoadPhase.CONNECT)),
    # Only a connection that was accepted is reset: without a listener it is refused, without an answer it times out.
    (ConnectionError, (CLOSED.words, LoadFailure.RESET, LoadPhase.REQUEST)),
)
_BY_ERROR: tuple[tuple[type[Exception], _Facts], ...] = (
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
    (httpx2.DecodingError, ("sent a body that could not be decoded", LoadFailure.CLOSED, LoadPhase.RESPONSE)),
)
_HARMLESS = (httpx2.DecodingError, httpx2.PoolTimeout)
_NOT_OF_THE_CONNECTION = frozenset({LoadFailure.NOT_MCP, LoadFailure.BAD_CONFIG})


def transport_failure(error: Exception) -> Failure:
    """Put an error of the HTTP client into words and facts; of several addresses each may have failed in its way."""
    return Failure.together(_transport_failure(error, cause) for cause in _innermost(error))


def ends_connection(error: Exception, failure: Failure) -> bool:
    """Say whether the network failed; any other error says nothing about the next request."""
    return not isinstance(error, _HARMLESS) and failure.kind not in _NOT_OF_THE_CONNECTION


def is_pool_full(failure: Failure) -> bool:
    """Say whether a request was not sent because other requests had all connections of the client."""
    return failure.exception == httpx2.PoolTimeout.__name__


def _transport_failure(error: Exception, cause: BaseException) -> Failure:
    words, kind, phase = _facts_of(error, cause)
    return Failure(
        words,
        exception=type(error).__name__,
        cause=type(cause).__name__,
        errno=cause.errno if isinstance(cause, OSError) else None,
        executed=not isinstance(error, _UNSENT),
        kind=kind,
        phase=phase,
    )


def _facts_of(error: Exception, cause: BaseException) -> _Facts:
    for kind, facts in _BY_ERROR:
        if isinstance(error, kind):
            return facts
    if isinstance(cause, socket.gaierror) and cause.errno == socket.EAI_AGAIN:
        return _UNRESOLVED
    if isinstance(error, httpx2.ConnectError):
        return next((facts for kind, facts in _BY_CAUSE if isinstance(cause, kind)), _UNREACHED)
    # The one case in which only the library's text distinguishes two errors.
    if isinstance(error, httpx2.RemoteProtocolError) and not re.search("disconnected|closed connection", str(error)):
        return "answered with something that is not HTTP", LoadFailure.NOT_MCP, LoadPhase.RESPONSE
    phase = LoadPhase.REQUEST if isinstance(error, httpx2.WriteError) else LoadPhase.RESPONSE
    return CLOSED.words, LoadFailure.RESET if isinstance(cause, ConnectionResetError) else LoadFailure.CLOSED, phase


def _innermost(error: BaseException) -> tuple[BaseException, ...]:
    """Return the operating system's errors at the ends of the causes, of which a group has several, or the error."""
    group = error.exceptions if isinstance(error, BaseExceptionGroup) else (error.__cause__ or error.__context__,)
    ends = (end for deeper in group if deeper is not None for end in _innermost(deeper))
    return tuple(end for end in ends if isinstance(end, OSError)) or (error,)
