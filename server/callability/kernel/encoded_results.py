"""Results that are encoded once, and joined as bytes: of a tool a `ToolResult`, of a server a `ServerResults`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple, Protocol

from callability.kernel.limits import InvalidRequest
from callability.v1 import callability_service_pb2 as pb
from callability.v1 import verdict_pb2

WordsKey = tuple[int, str]
"""The number of a status, and a rule or nothing."""


class Cause(StrEnum):
    """Why a fact is unknown, or that it is not declared and so ignored."""

    LEFT_OUT = "left_out"
    NOT_UNDERSTOOD = "not_understood"
    UNDECLARED = "undeclared"


class Gap(NamedTuple):
    """A fact that keeps a decision undetermined, of which question, and why it is unknown.

    A declared fact that the rule file does not declare keeps no decision undetermined. It is counted too, not by its
    name, which any caller may invent, but by what it is a fact of: `server`, `tool` or `agent`.
    """

    question: str
    fact: str
    cause: Cause


class Counted(NamedTuple):
    """What a verdict is counted by; `rule` is empty for an undetermined verdict or an error of an item."""

    question: str
    status: str
    rule: str


class Observer(Protocol):
    """What counts decisions. It never learns names or values."""

    def decided(self, kind: Counted) -> None:
        """Count a verdict."""

    def decided_batch(
        self, fresh: Sequence[Sequence[EncodedResult]], again: Sequence[EncodedServerResults], tools: int
    ) -> None:
        """Count the results of a batch about so many tools: decided now, or kept."""

    def met(self, found: Mapping[Gap, int]) -> None:
        """Count how many decisions had each gap."""


@dataclass(frozen=True, slots=True, eq=False)
class EncodedResult:
    """The result for one tool: a verdict or an error, with the number of its status.

    `locked`: a rule locks the tool, so that further locks may remain.
    `encoded` are its bytes in a `ServerResults`, `reply` those of a `CheckToolResponse`. `words` names the words that
    belong to it, `gaps` are the facts that keep it undetermined and those that are not declared, and `counted` is what
    it is counted by.
    """

    number: int
    encoded: bytes
    counted: Counted
    words: WordsKey | None = None
    error: InvalidRequest | None = None
    reply: bytes = b""
    gaps: tuple[Gap, ...] = ()
    locked: bool = False

    def with_gaps(self, gaps: tuple[Gap, ...]) -> EncodedResult:
        """Return the result with further gaps; itself if there are none."""
        return replace(self, gaps=(*self.gaps, *gaps)) if gaps else self

    def check(self) -> None:
        """Check that it is a verdict.

        Raises:
            InvalidRequest: it is an error.
        """
        if self.error is not None:
            raise type(self.error)(self.error.reason, self.error.message)


@dataclass(frozen=True, slots=True, eq=False)
class EncodedServerResults:
    """The results for the tools of one server: a `ServerResults` encoded, and the words for it.

    `gaps` are the facts that keep some of them undetermined, and those that are not declared, each with their number.
    """

    results: Sequence[EncodedResult]
    encoded: bytes
    words: frozenset[WordsKey]
    gaps: Mapping[Gap, int]
    _kinds: list[tuple[Counted, int]] = field(default_factory=list)

    @property
    def tools(self) -> int:
        """The number of tools."""
        return len(self.results)

    @property
    def kinds(self) -> Sequence[tuple[Counted, int]]:
        """What the results are counted by, each with the number of tools; found when first needed."""
        if not self._kinds:
            self._kinds.extend(Counter(result.counted for result in self.results).items())
        return self._kinds


def gaps_of(question: str, unread: Iterable[str], not_understood: frozenset[str] = frozenset()) -> tuple[Gap, ...]:
    """Return the gaps of a decision with some unread facts, some of which were sent and not understood."""
    return tuple(
        Gap(question, fact, Cause.NOT_UNDERSTOOD if fact in not_understood else Cause.LEFT_OUT) for fact in unread
    )


def undeclared(subject: str, times: int) -> tuple[Gap, ...]:
    """Return the gaps of facts of a server, a tool or an agent that the rule file does not declare."""
    return (Gap("callability", subject, Cause.UNDECLARED),) * times


def joined(results: Sequence[EncodedResult], of_server: Sequence[Gap] = ()) -> EncodedServerResults:
    """Return the results for the tools of a server as one, with further gaps of the server itself."""
    each = Counter(results)
    words = frozenset(result.words for result in each if result.words)
    numbers: Counter[int] = Counter()
    for result, count in each.items():
        numbers[result.number] += count
    counts = [_count(number, numbers[number]) for number in sorted(numbers)]
    encoded = b"".join([*[result.encoded for result in results], *counts])
    return EncodedServerResults(results, encoded, words, _gaps_among(each, of_server))


def _gaps_among(results: Mapping[EncodedResult, int], of_server: Sequence[Gap]) -> Mapping[Gap, int]:
    found: dict[Gap, int] = {}
    for result, count in results.items():
        for gap in result.gaps:
            found[gap] = found.get(gap, 0) + count
    for gap in of_server:
        found[gap] = found.get(gap, 0) + 1
    return found


@lru_cache(maxsize=4_096)
def _count(number: int, count: int) -> bytes:
    counted = verdict_pb2.StatusCount(status=number, count=count)  # type: ignore[arg-type]  # of any version
    return pb.ServerResults(counts=[counted]).SerializeToString()
