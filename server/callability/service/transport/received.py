"""Requests as they arrive: of one that is larger than its method takes, only the size is kept.

gRPC, and the exception with which it ends a call, may hold a request for long after that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from callability.kernel.limits import InvalidRequest


@dataclass(frozen=True, slots=True)
class TooLarge:
    """What is kept of a request with so many bytes, whose method takes at most `limit`."""

    size: int
    limit: int


Received: TypeAlias = bytes | TooLarge


def at_most(limit: int, dropped: Callable[[int], object]) -> Callable[[bytes], Received]:
    """Return a deserializer that drops a request of more than so many bytes, and calls `dropped` with its size."""

    def received(data: bytes) -> Received:
        if len(data) <= limit:
            return data
        dropped(len(data))
        return TooLarge(len(data), limit)

    return received


def size_of(request: Received | None) -> int:
    """Return how many bytes are held of a request."""
    return len(request) if isinstance(request, bytes) else 0


def checked(request: Received | None) -> bytes:
    """Return a request.

    Raises:
        InvalidRequest: there is none, or it has more bytes than its method takes.
    """
    if request is None:
        raise InvalidRequest("REQUEST_MALFORMED", "the call has no request")
    if isinstance(request, TooLarge):
        sentence = f"the request has {request.size:,} bytes, and may have {request.limit:,}"
        raise InvalidRequest("REQUEST_TOO_LARGE", sentence)
    return request
