"""Results that are encoded once, and joined as bytes: of a tool a `ToolResult`, of a server a `ServerResults`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from callability.service.observability.gaps import Gap
from callability.service.observability.verdict_counts import Counted
from callability.service.requests.errors import InvalidRequest, ServiceError
from callability.service.translation.messages import status_number
from callability.v1 import callability_service_pb2 as pb
from callability.v1 import verdict_pb2
from callability.vocabulary import ToolStatus

WordsKey = tuple[str, str]
"""A status, and a rule or nothing."""

UNDETERMINED: WordsKey = (ToolStatus.DISABLED_UNKNOWN, "")
"""The words of every undetermined result."""
_ERROR = Counted("callability", ToolStatus.DISABLED_UNKNOWN, "")
PLACES = {status: place for place, status in enumerate(ToolStatus)}


@dataclass(frozen=True, slots=True, eq=False)
class EncodedResult:
    """The result for one tool: a verdict or an error. Counts of statuses need the place of its status in their order.

    `encoded` are its bytes in a `ServerResults`, `reply` those of a `CheckToolResponse`. `words` names the words that
    belong to it, `gaps` are the facts that keep it undetermined and those that are not declared, and `counted` is what
    metrics count it by.
    """

    place: int
    encoded: bytes
    words: WordsKey | None = None
    verdict: verdict_pb2.ToolVerdict | None = None
    error: verdict_pb2.ItemError | None = None
    reply: bytes = b""
    gaps: tuple[Gap, ...] = ()
    counted: Counted = _ERROR

    def with_gaps(self, gaps: tuple[Gap, ...]) -> EncodedResult:
        """Return the result with further gaps; itself if there are none."""
        return replace(self, gaps=(*self.gaps, *gaps)) if gaps else self

    def check(self) -> None:
        """Check that it is a verdict.

        Raises:
            InvalidRequest: it is an error.
        """
        if self.error is not None:
            raise InvalidRequest(self.error.reason, self.error.message)


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
        """What metrics count the results by, each with the number of tools; found when first needed."""
        if not self._kinds:
            self._kinds.extend(Counter(result.counted for result in self.results).items())
        return self._kinds


def encoded_error(error: ServiceError) -> EncodedResult:
    """Return an error as the result for a tool: it counts as undetermined."""
    item = verdict_pb2.ItemError(reason=error.reason, message=error.message)
    encoded = pb.ServerResults(results=[pb.ToolResult(error=item)]).SerializeToString()
    return EncodedResult(PLACES[ToolStatus.DISABLED_UNKNOWN], encoded, UNDETERMINED, error=item)


def joined(results: Sequence[EncodedResult], of_server: Sequence[Gap] = ()) -> EncodedServerResults:
    """Return the results for the tools of a server as one, with further gaps of the server itself."""
    distinct = set(results)
    words = frozenset(result.words for result in distinct if result.words)
    found = gaps_among(results) if any(result.gaps for result in distinct) else {}
    gaps = {**found, **Counter(of_server)} if of_server else found
    encoded = b"".join([result.encoded for result in results]) + _counts(results)
    return EncodedServerResults(results, encoded, words, gaps)


def gaps_among(results: Sequence[EncodedResult]) -> Mapping[Gap, int]:
    """Return the gaps of some results, each with the number of results that have it."""
    found: dict[Gap, int] = {}
    for result, count in Counter(results).items():
        for gap in result.gaps:
            found[gap] = found.get(gap, 0) + count
    return found


def _counts(results: Sequence[EncodedResult]) -> bytes:
    places = bytes([result.place for result in results])
    return b"".join([_count(place, places.count(place)) for place in sorted(set(places))])


@lru_cache(maxsize=4_096)
def _count(place: int, count: int) -> bytes:
    counted = verdict_pb2.StatusCount(status=status_number(tuple(ToolStatus)[place]), count=count)
    return pb.ServerResults(counts=[counted]).SerializeToString()
