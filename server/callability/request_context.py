"""The request that is answered now: its id, and what its log lines and spans have in common."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

REQUEST_ID = "x-request-id"
"""The key of the id in the metadata of gRPC, and the name of the header of HTTP."""
_USABLE = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")
Metadata = Sequence[tuple[str, str | bytes]]


@dataclass(slots=True)
class RequestContext:
    """One request: `fields` go to its log lines, and `metadata` is what the caller sent with it.

    None of it is in an answer that an agent reads (FR-002).
    """

    request_id: str
    fields: dict[str, str] = field(default_factory=dict)
    metadata: Metadata = ()


_CURRENT: ContextVar[RequestContext | None] = ContextVar("request", default=None)
_source = random.Random()


def current() -> RequestContext | None:
    """Return the request that is answered now; None if there is none."""
    return _CURRENT.get()


def current_id() -> str:
    """Return the id of the request that is answered now, or a new one if there is none."""
    request = _CURRENT.get()
    return new_id() if request is None else request.request_id


def usable_id(given: str | None) -> str:
    """Return the id that a caller gave, or a new one if it gave none or one that a log cannot take as it is."""
    return given if given is not None and _USABLE.fullmatch(given) else new_id()


def new_id() -> str:
    """Return a new id: 32 hexadecimal digits, which nobody needs to be unable to guess."""
    return f"{_source.getrandbits(128):032x}"


def begin(given: str | None, metadata: Metadata = ()) -> None:
    """Let the task that runs now be about a new request, to its end."""
    _CURRENT.set(RequestContext(usable_id(given), metadata=metadata))


@contextmanager
def request_id(given: str | None = None) -> Iterator[str]:
    """Answer a request inside the context, under the id that its caller gave or a new one; it yields the id.

    A given id that has other characters than `A-Z a-z 0-9 . _ : / + = @ -`, or more than 128, is not used. The calls
    that a client makes inside send the id to the service, and the lines of both logs have it.
    """
    made = RequestContext(usable_id(given))
    token = _CURRENT.set(made)
    try:
        yield made.request_id
    finally:
        _CURRENT.reset(token)


def note(**fields: str) -> None:
    """Add fields to the log lines of the request that is answered now, if there is one."""
    if (request := _CURRENT.get()) is not None:
        request.fields.update(fields)
