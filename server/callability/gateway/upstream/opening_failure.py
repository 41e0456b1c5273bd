"""Explains why an opening failed, from the errors that ended it, if the transport has no better explanation."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2
from mcp import MCPError
from mcp_types import CONNECTION_CLOSED, PARSE_ERROR, UNSUPPORTED_PROTOCOL_VERSION
from pydantic import ValidationError

from callability.gateway.upstream.failure import MESSAGE_BYTES, NOT_MCP, TOO_LONG, Failure
from callability.gateway.upstream.list_fault import ListFault
from callability.gateway.upstream.listing import EndlessListError
from callability.gateway.upstream.transport_failure import transport_failure
from callability.vocabulary import LoadFailure, LoadPhase

_SDK_TOO_LONG = f"exceeded the {MESSAGE_BYTES} byte limit"
_FIRST_ERROR = 400
_SELF_EXPLANATORY = (httpx2.HTTPError, httpx2.InvalidURL, MCPError, ValidationError, EndlessListError)


def opening_failure(error: BaseException, status: int | None = None) -> Failure:
    """Return a failure for each leaf of a group; `status` is the HTTP status with which the last answer came."""
    return Failure.together(_failure(leaf, status) for leaf in _leaves(error))


def is_too_long(error: BaseException) -> bool:
    """Say whether a message was refused for its length: by the stdio transport, or in an event stream by the SDK."""
    if not isinstance(error, MCPError):
        return False
    return error.data is TOO_LONG or (error.code == CONNECTION_CLOSED and _SDK_TOO_LONG in error.message)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors of a group; an error that says nothing is replaced by its cause."""
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    elif error.__cause__ is not None and not isinstance(error, _SELF_EXPLANATORY):
        yield from _leaves(error.__cause__)
    else:
        yield error


def _failure(error: BaseException, status: int | None) -> Failure:
    if isinstance(error, (httpx2.HTTPError, httpx2.InvalidURL)):
        return transport_failure(error)
    if is_too_long(error):
        return TOO_LONG
    if isinstance(error, ListFault):
        return error.failure
    code = error.code if isinstance(error, MCPError) else None
    words, kind, phase = "could not be connected", LoadFailure.OTHER, None
    if isinstance(error, EndlessListError):
        words = str(error)
    elif isinstance(error, ValidationError) or code == PARSE_ERROR:
        words, kind, phase = NOT_MCP, LoadFailure.NOT_MCP, LoadPhase.RESPONSE
    # The SDK raises RuntimeError for a handshake that names a version it does not know.
    elif isinstance(error, RuntimeError) or code == UNSUPPORTED_PROTOCOL_VERSION:
        words = "speaks no version of MCP that this gateway speaks"
    elif code is not None:
        words, phase = f"answered the opening with JSON-RPC error {code}", LoadPhase.RESPONSE
        if status is not None and status >= _FIRST_ERROR:
            return Failure(words, type(error).__name__, status=status, kind=LoadFailure.HTTP_STATUS, phase=phase)
    return Failure(words, exception=type(error).__name__, kind=kind, phase=phase)
