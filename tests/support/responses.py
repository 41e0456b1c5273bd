"""Answers of servers whose tools cannot be loaded, and the outcome of loading them."""

from __future__ import annotations

from typing import Any

from callability.contract.vocabulary import LoadStatus
from callability.gateway.loading import LoadOutcome
from support.upstreams.bad_http import BadHttp, reply

COMPACT_BODY = b'{"error":"upstream call timeout","path":"/mcp"}'
REFUSAL = reply(b"no", status="403 Forbidden", kind="text/plain")
ABSENT = reply(b"no", status="404 Not Found", kind="text/plain")


def response(number: int, body: bytes = b"no", extra: str = "") -> bytes:
    """Return a response with an HTTP status."""
    return reply(body, status=f"{number} Status", kind="text/plain", extra=extra)


def cut_response(number: int, body: bytes, extra: str = "") -> bytes:
    """Return a response that ends before its body does."""
    head = f"HTTP/1.1 {number} Status\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n{extra}\r\n"
    return head.encode() + body


def summary(outcome: LoadOutcome) -> tuple[LoadStatus, int]:
    """Return what a row of the table says, having seen that tools and error fit the status."""
    assert (outcome.error is None) == (outcome.status is LoadStatus.AVAILABLE) == bool(outcome.tools)
    return outcome.status, outcome.attempts


def http(server: BadHttp) -> dict[str, Any]:
    """Return the config entry of a server on HTTP."""
    return {"url": server.url}
