"""From the text of an error to signals: the last resort, for a caller that has nothing else (L-2).

Of several signals the most careful counts, and an uncertain one does not: a denial comes before what needs attention,
and that before what recovers by itself. URLs, paths and names of hosts are never read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from http import HTTPStatus

from callability.timeout_signature import DECIDED, TIMEOUT, timed_out_on_the_way, without_addresses
from callability.v1.outcome_pb2 import LoadFailure, LoadPhase, LoadSignals

_REASONS = "|".join(re.escape(status.phrase.lower()) for status in HTTPStatus if status >= HTTPStatus.BAD_REQUEST)
_NUMBERS = (
    re.compile(r"\bhttp(?:/\d(?:\.\d)?)?\W{0,3}(?:(?:status|error|response|code)\W{1,3}){0,2}([345]\d\d)\b"),
    re.compile(r"\b(?:status|status[ _-]?code|code|error|returned|got|response)[\"']?\W{1,3}([345]\d\d)\b"),
    re.compile(rf"\b([45]\d\d)[\"']?:? (?:{_REASONS})\b"),
)
_DENIALS = {"unauthorized": HTTPStatus.UNAUTHORIZED, "forbidden": HTTPStatus.FORBIDDEN}
_WAITS = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)

_MAYBE_DENIED = re.compile(rf"{DECIDED}|\b40[13]\b")
"""In such a text nothing certainly recovers by itself."""

_NEEDS_ATTENTION = (
    (LoadFailure.LOAD_FAILURE_NAME_NOT_FOUND, r"getaddrinfo|name resolution|name or service not known|unknown host"),
    (LoadFailure.LOAD_FAILURE_NAME_NOT_FOUND, r"nodename nor servname|enotfound|could not resolve"),
    (LoadFailure.LOAD_FAILURE_REFUSED, r"connection refused|econnrefused|actively refused|connect call failed"),
    (LoadFailure.LOAD_FAILURE_MISSING_COMMAND, r"command not found|no such file or directory|enoent\b"),
    (LoadFailure.LOAD_FAILURE_EXITED, r"exited (?:with|before)|exit (?:code|status)|terminated by signal"),
    (LoadFailure.LOAD_FAILURE_BAD_CONFIG, r"invalid (?:url|config|port)|malformed config|unsupported protocol"),
    (LoadFailure.LOAD_FAILURE_TLS, r"certificate|sslerror|\bssl\b|tls alert|wrong version number"),
    (LoadFailure.LOAD_FAILURE_NOT_MCP, r"not (?:an? )?mcp|not json|invalid json|jsondecodeerror|unexpected content"),
)
_TRANSIENT = (
    (LoadFailure.LOAD_FAILURE_TIMEOUT, rf"{TIMEOUT}|etimedout"),
    (LoadFailure.LOAD_FAILURE_RESET, r"connection reset|econnreset|broken pipe|epipe"),
    (LoadFailure.LOAD_FAILURE_CLOSED, r"connection (?:was )?closed|closed (?:the )?connection|server disconnected"),
    (LoadFailure.LOAD_FAILURE_CLOSED, r"remoteprotocolerror|unexpected eof|incomplete ?(?:read|chunked)"),
)
_TEMPORARY = re.compile(r"(?:getaddrinfo(?: failed)?\W+)?(?:\beai_again\b|temporary failure in name resolution)")
"""How a text says that a name could not be looked up for now, which counts as a timeout."""
_WHEN_OPEN = (LoadFailure.LOAD_FAILURE_RESET, LoadFailure.LOAD_FAILURE_CLOSED)
"""Failures of an open connection: before, a connection is refused or fails in TLS."""
_BUSY = {"too many requests": 429, "internal server error": 500, "bad gateway": 502, "service unavailable": 503}


def signals_in_text(text: str) -> LoadSignals:
    """Return what a text certainly says about the failure of a load; nothing if it says nothing certain."""
    lowered = _TEMPORARY.sub("timed out", without_addresses(text).lower())
    numbers = set(_numbers(lowered))
    if numbers:
        return LoadSignals(http_status=min(numbers, key=_carelessness), timeout_signature=timed_out_on_the_way(text))
    failure = _first(_NEEDS_ATTENTION, lowered)
    if failure or _MAYBE_DENIED.search(lowered):
        return LoadSignals(failure=failure)
    failure = _first(_TRANSIENT, lowered)
    if failure:
        return LoadSignals(failure=failure, phase=LoadPhase.LOAD_PHASE_RESPONSE if failure in _WHEN_OPEN else None)
    return LoadSignals(http_status=next((number for reason, number in _BUSY.items() if reason in lowered), None))


def _first(table: tuple[tuple[LoadFailure.ValueType, str], ...], text: str) -> LoadFailure.ValueType | None:
    return next((failure for failure, pattern in table if re.search(pattern, text)), None)


def _numbers(text: str) -> Iterator[int]:
    for pattern in _NUMBERS:
        yield from (int(match[1]) for match in pattern.finditer(text))
    yield from (number for reason, number in _DENIALS.items() if reason in text)


def _carelessness(number: int) -> tuple[int, int]:
    """Return how little care a status needs: a denial the most, then what does not recover by itself (L-1)."""
    if number in _DENIALS.values():
        return 0, number
    transient = number in _WAITS or number >= HTTPStatus.INTERNAL_SERVER_ERROR
    return 1 + transient, number
