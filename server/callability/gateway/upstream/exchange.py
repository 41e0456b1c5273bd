"""The outcome of the last HTTP request of one call or one opening."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field

from callability.gateway.upstream.failure import Failure

PROBE = "server/discover"
"""The first request of MCP 2026-07-28; a server of an earlier revision may refuse it, ignore it, or end over it."""


@dataclass(slots=True)
class Exchange:
    """The outcome of the latest request; `lost` demands a new connection, `status` is that of the last answer.

    An answer that sends nothing for `seconds` is given up, even if a caller waits for it: in MCP 2025-11-25, a caller
    that has gone does not end its request, and endless requests would fill the pool. None: never. `so_far` returns
    the failure of an answer that is an error while its body is still being read. `refusal` is the failure of a
    handshake that was refused or deferred: the same try does not repeat it. `text` is what arrived of the last list of
    tools, or of the answer to a call: it shows what is wrong if the SDK only says that something is. In an opening,
    `server/discover` has `probe_seconds` for its answer, `unanswered` says that it got none from a server of MCP, and
    `denial` is one that stands if `initialize` gets no answer either.
    """

    seconds: float | None
    failure: Failure | None = None
    lost: bool = False
    status: int | None = None
    so_far: Callable[[], Failure | None] | None = None
    refusal: Failure | None = None
    probe_seconds: float | None = None
    unanswered: bool = False
    denial: Failure | None = None
    text: bytearray = field(default_factory=bytearray, repr=False)
    began: float = field(default_factory=time.monotonic, repr=False)

    def begin(self) -> None:
        """Forget the outcome of an earlier request, because another one is sent now."""
        self.failure = self.status = self.so_far = None
        self.text = bytearray()

    def lose(self, failure: Failure) -> None:
        """Set a failure after which the connection must not be used again."""
        self.failure, self.lost = failure, True

    @property
    def seconds_left(self) -> float | None:
        """The rest of `seconds` since this exchange began, for all its requests together."""
        return None if self.seconds is None else max(0.0, self.began + self.seconds - time.monotonic())

    @property
    def known(self) -> Failure | None:
        """The failure of which the status line has arrived, if the rest of the answer has not."""
        return None if self.so_far is None else self.so_far()


# Set by the caller; the SDK runs each request in its caller's context. An error's `data` would be easier to read
# and could be forged by the upstream.
EXCHANGE: ContextVar[Exchange | None] = ContextVar("exchange", default=None)
