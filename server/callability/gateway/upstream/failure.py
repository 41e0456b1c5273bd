"""Why an upstream failed: a sentence in the gateway's own words, and the facts behind it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from callability.timeout_signature import timed_out_on_the_way
from callability.vocabulary import LoadFailure, LoadPhase

NOT_SENT = "; the call was not sent"
MAY_HAVE_RUN = "; the call may have been carried out"
NOT_CARRIED_OUT = "; the call was not carried out"
MESSAGE_BYTES = 16 * 1024 * 1024
"""The longest message that is accepted from an upstream."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What is known of one failure; `words` follow the server's name in a sentence and hold nothing an upstream wrote.

    `exception` and `cause` name the types of the error and of the operating system's error inside it, `exit_code` is
    negative for a signal, `retry_after` is in seconds, `in_session` says that the HTTP request named an established
    session, and `executed` whether a request may have been carried out. `kind` and `phase` say what failed and how far
    it had come, where that is known. `body` is the upstream's own text, for a classifier only: it is never shown or
    logged. `others` are the failures that came with this one, in a group of errors.
    """

    words: str
    exception: str = ""
    cause: str = ""
    errno: int | None = None
    exit_code: int | None = None
    status: int | None = None
    retry_after: float | None = None
    in_session: bool = False
    executed: bool = True
    kind: LoadFailure = LoadFailure.OTHER
    phase: LoadPhase | None = None
    body: str = field(default="", repr=False)
    others: tuple[Failure, ...] = field(default=(), repr=False)

    @classmethod
    def together(cls, failures: Iterable[Failure]) -> Failure:
        """Return the first of some failures, with the others that differ."""
        first, *others = dict.fromkeys(each for failure in failures for each in failure.each)
        return replace(first, others=tuple(others))

    @property
    def is_denial(self) -> bool:
        """Whether access was refused, and no timeout on the way explains it."""
        return self.status in {401, 403} and not timed_out_on_the_way(self.body)

    @property
    def each(self) -> tuple[Failure, ...]:
        """This failure and the others, each alone."""
        return (replace(self, others=()), *self.others)


NOT_MCP = "answered with something that is not MCP"
CLOSED = Failure("closed the connection before it answered", kind=LoadFailure.CLOSED, phase=LoadPhase.RESPONSE)
TOO_LONG = Failure(f"sent a message of more than {MESSAGE_BYTES // 1024 // 1024} MiB", phase=LoadPhase.RESPONSE)


def ending_of(failure: Failure) -> str:
    """Return how the sentence about a call that was sent ends."""
    return MAY_HAVE_RUN if failure.executed else NOT_CARRIED_OUT


class UpstreamError(Exception):
    """An upstream could not be connected or did not carry out a call; `str()` is one sentence, safe for an agent."""

    def __init__(self, name: str, failure: Failure, ending: str = "") -> None:
        super().__init__(f"`{name}` {failure.words}{ending}")
        self.failure = failure


class UpstreamRefusal(UpstreamError):
    """The upstream answered a call with JSON-RPC error `code`; `message` is its own text without the secrets of its
    target, which `str()` leaves out.
    """

    def __init__(self, name: str, code: int, message: str) -> None:
        super().__init__(name, Failure(f"refused the call with JSON-RPC error {code}"))
        self.code = code
        self.message = message
