"""The call about tools by columns, from the bytes of a request to the bytes of a reply."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from callability.bounded_cache import BoundedCache
from callability.packed_numbers import packed
from callability.policy.loading import Policy
from callability.service.fast_path import lazy_messages
from callability.service.fast_path.answer_table import AnswerTable, combinations, table_of
from callability.service.fast_path.encoded_results import EncodedResult
from callability.service.fast_path.point_columns import ColumnAxis, PointReader, column_axes
from callability.service.fast_path.policy_results import PolicyResults
from callability.service.fast_path.turn import AT_ONCE, Turn
from callability.service.observability.gaps import Gap, Gaps
from callability.service.observability.verdict_counts import Counted
from callability.service.requests import limits, request_size
from callability.service.translation.tool_facts import AgentValues, FactValues
from callability.v1 import callability_service_pb2 as pb

MAX_COMBINATIONS = 2_048
"""Combinations of points for which a table of all answers is made: that takes some milliseconds for each agent."""
MAX_AGENTS = 64
"""Agents whose answers are kept; one that rules do not distinguish from another is the same."""
MAX_ANSWERS = 4_096
"""Answers by points that are kept for an agent, if there is no table."""
MAX_REQUESTS = 16
"""Requests that are kept with their reply: a proxy asks about the same tools again and again."""
MAX_REQUEST_BYTES = 262_144
"""Bytes of a request that is kept."""
MAX_ENDS = 256
"""Ends of replies that are kept: the different verdicts and their words."""


@dataclass(frozen=True, slots=True)
class _Decided:
    """The different results, and for each tool the place of its own among them."""

    results: tuple[EncodedResult, ...]
    places: bytes
    """One byte a tool if there are at most 256 results, and more otherwise."""
    counts: tuple[int, ...]
    """How many tools have each result."""


@dataclass(frozen=True, slots=True, eq=False)
class _Kinds:
    """What metrics count the results of a request by, each with the number of tools."""

    kinds: Sequence[tuple[Counted, int]]


@dataclass(frozen=True, slots=True, eq=False)
class _Reply:
    """A reply, and what is counted with it: the tools, the kinds of their results, and the gaps."""

    encoded: bytes
    tools: int
    kinds: _Kinds
    gaps: Mapping[Gap, int]


class ColumnCalls:
    """Answers `CheckColumns` by the results of one policy, and counts the gaps of what it decides."""

    def __init__(self, policy: Policy, results: PolicyResults, gaps: Gaps) -> None:
        self._results = results
        self._gaps = gaps
        axes = column_axes(policy, results.reader)
        self._points = PointReader(axes, policy.revision)
        self._axes = axes
        self._agents: BoundedCache[AgentValues, AgentAnswers] = BoundedCache(MAX_AGENTS)
        self._requests: BoundedCache[bytes, _Reply] = BoundedCache(MAX_REQUESTS, MAX_REQUEST_BYTES)
        self._ends: BoundedCache[tuple[EncodedResult, ...], bytes] = BoundedCache(MAX_ENDS)

    async def check_columns(self, data: bytes) -> bytes:
        """Answer a `CheckColumnsRequest` with a `CheckColumnsResponse`.

        Raises:
            InvalidRequest: it is malformed, exceeds a limit, or a column or the name of the agent in it is not one.
            RevisionChanged: it has points of another revision.
        """
        reply = self._requests.get(data)
        if reply is None:
            reply = await self._decide(data)
            self._requests.keep(data, reply, len(data))
        if reply.gaps:
            self._gaps.met(reply.gaps)
        self._gaps.decided_batch((), [reply.kinds], reply.tools)
        return reply.encoded

    async def _decide(self, data: bytes) -> _Reply:
        request_size.check_columns(data)
        request = lazy_messages.read(pb.CheckColumnsRequest, data)
        tools = request.tools
        limits.check_sizes(tools, 0)
        agent, ignored = self._results.agent_of(request)
        turn = Turn()
        points = await self._points.read(request, turn)
        decided = await self._of(agent).decide(points.columns, tools, turn)
        head = pb.CheckColumnsResponse(
            revision=self._results.revision,
            verdicts=decided.places,
            name_points=[pb.NamePoints(fact=fact, points=each) for fact, each in points.of_names.items()],
        )
        # Joined on the wire, messages are one.
        encoded = head.SerializeToString() + self._end(decided.results)
        return _Reply(encoded, tools, *_counted(decided, Counter(ignored)))

    def _of(self, agent: AgentValues) -> AgentAnswers:
        answers = self._agents.get(agent)
        if answers is None:
            answers = AgentAnswers(self._axes, self._results, agent)
            self._agents.keep(agent, answers)
        return answers

    def _end(self, results: tuple[EncodedResult, ...]) -> bytes:
        """Return the different verdicts of a reply and their words, encoded."""
        end = self._ends.get(results)
        if end is None:
            words = self._results.encoded_words({result.words for result in results if result.words})
            message = lazy_messages.CheckColumnsResponse(words=words)
            message.distinct_verdicts.extend(
                result.verdict.SerializeToString() for result in results if result.verdict is not None
            )
            end = message.SerializeToString()
            self._ends.keep(results, end)
        return end


class AgentAnswers:
    """The results for columns of points, for an agent of which rules know these values."""

    def __init__(self, axes: Sequence[ColumnAxis], results: PolicyResults, agent: AgentValues) -> None:
        self._axes = axes
        self._results = results
        self._agent = agent
        self._sizes = [axis.size for axis in axes]
        self._tabled = prod(self._sizes) <= MAX_COMBINATIONS
        self._table: AnswerTable | None = None
        self._listed: tuple[EncodedResult, ...] = ()
        self._kept: BoundedCache[tuple[int, ...], EncodedResult] = BoundedCache(MAX_ANSWERS)

    async def decide(self, columns: Sequence[Sequence[int]], tools: int, turn: Turn) -> _Decided:
        """Return the results for so many tools, by a column for each axis."""
        if self._tabled and self._table is None:
            await self._tabulate(turn)
        if self._table is None:
            return await self._by_points(columns, tools, turn)
        answers = self._table.answers([bytes(column) for column in columns], tools)
        found = [number for number in range(len(self._listed)) if number in answers]
        place = bytearray(256)
        for new, number in enumerate(found):
            place[number] = new
        counts = tuple(answers.count(number) for number in found)
        return _Decided(tuple(self._listed[number] for number in found), answers.translate(place), counts)

    async def _tabulate(self, turn: Turn) -> None:
        numbers: dict[EncodedResult, int] = {}
        answers = []
        for place, points in enumerate(combinations(self._sizes)):
            if place % AT_ONCE == 0:
                await turn.others()
            answers.append(numbers.setdefault(self._result(points), len(numbers)))
        self._table, self._listed = table_of(self._sizes, answers), tuple(numbers)
        self._tabled = self._table is not None

    async def _by_points(self, columns: Sequence[Sequence[int]], tools: int, turn: Turn) -> _Decided:
        """Decide each combination of points that occurs."""
        rows = list(zip(*columns, strict=True)) if columns else [()] * tools
        numbers = Counter(rows)
        of_row: dict[tuple[int, ...], EncodedResult] = {}
        for place, row in enumerate(numbers):
            if place % AT_ONCE == 0:
                await turn.others()
            of_row[row] = self._kept.get(row) or self._decided(row)
        counts: dict[EncodedResult, int] = {}
        for row, number in numbers.items():
            counts[of_row[row]] = counts.get(of_row[row], 0) + number
        places = {result: place for place, result in enumerate(counts)}
        of_place = {row: places[result] for row, result in of_row.items()}
        column = packed(map(of_place.__getitem__, rows), len(places))
        return _Decided(tuple(counts), column, tuple(counts.values()))

    def _decided(self, row: tuple[int, ...]) -> EncodedResult:
        result = self._result(row)
        self._kept.keep(row, result)
        return result

    def _result(self, points: Sequence[int]) -> EncodedResult:
        values: dict[str, str] = dict(self._agent.values)
        for axis, point in zip(self._axes, points, strict=True):
            state: Mapping[str, str] = axis.states[point]
            values |= state
        return self._results.of_facts(FactValues(values, self._agent.not_understood))


def _counted(decided: _Decided, gaps: dict[Gap, int]) -> tuple[_Kinds, Mapping[Gap, int]]:
    """Return what metrics count of results, with the gaps of the agent."""
    kinds = []
    for result, number in zip(decided.results, decided.counts, strict=True):
        kinds.append((result.counted, number))
        for gap in result.gaps:
            gaps[gap] = gaps.get(gap, 0) + number
    return _Kinds(kinds), gaps
