"""From requests about many tools to columns of points, by the axes that `GetPolicy` lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from callability.bounded_cache import BoundedCache
from callability.packed_numbers import packed, unpacked
from callability.request_facts.tool import hints, server_fields, tool_fields
from callability.v1 import facts_pb2
from callability.v1 import policy_service_pb2 as policy_pb
from callability.v1.callability_service_pb2 import (
    AxisColumn,
    CheckColumnsRequest,
    CheckColumnsResponse,
    CheckToolsRequest,
    NameColumn,
)
from callability.v1.verdict_pb2 import ToolVerdict
from callability.vocabulary import UNKNOWN

QUESTION = "callability"
MAX_FACTS = 4_096
"""Different facts of servers or of tools whose points are kept."""
MAX_NAMES = 100_000
"""Names whose points are kept, for each axis of names."""
_NO_LABEL = "none"
_Group = facts_pb2.ServerFacts | facts_pb2.ToolFacts
_FIELDS = frozenset(
    {**server_fields(facts_pb2.ServerFacts()), **tool_fields(facts_pb2.ToolFacts()), **hints(facts_pb2.ToolFacts())}
)


class FactColumns:
    """Writes `CheckColumnsRequest` by the axes of one revision. Threads may share it.

    Args:
        policy: what `GetPolicy` returned. Its service must have `CheckColumns`.
    """

    def __init__(self, policy: policy_pb.GetPolicyResponse) -> None:
        self.revision = policy.revision
        rules = next((each for each in policy.rule_sets if each.name == QUESTION), policy_pb.RuleSet())
        defaults = {fact.fact: fact.default_value for fact in rules.declared_facts if fact.asserted}
        declared = {fact.fact for fact in rules.declared_facts}
        server, tool = policy_pb.FACT_SUBJECT_SERVER, policy_pb.FACT_SUBJECT_TOOL
        self._server = _Reader((axis for axis in rules.axes if axis.subject == server), declared, defaults)
        self._tool = _Reader((axis for axis in rules.axes if axis.subject == tool), declared, defaults)
        self._names = {
            axis.facts[0]: axis.size for axis in rules.axes if axis.subject in (server, tool) and not axis.points
        }
        self._known: dict[str, BoundedCache[str, int]] = {fact: BoundedCache(MAX_NAMES) for fact in self._names}

    def request(self, request: CheckToolsRequest) -> CheckColumnsRequest:
        """Return a request about the same tools, by columns. A name is sent until a response has named its point."""
        of_server: list[Sequence[int]] = []
        of_tool: list[Sequence[int]] = []
        for server in request.servers:
            of_server += [self._server.points(server.facts)] * len(server.tools)
            of_tool += map(self._tool.points, (tool.facts for tool in server.tools))
        tools = len(of_tool)
        columns = [*self._server.columns(of_server), *self._tool.columns(of_tool)]
        for fact in self._names:
            columns.append(self._name_column(fact, _names_in(request, fact)))
        agent = request.agent if request.HasField("agent") else None
        return CheckColumnsRequest(agent=agent, revision=self.revision, tools=tools, columns=columns)

    def learn(self, request: CheckColumnsRequest, response: CheckColumnsResponse) -> None:
        """Keep the points of the names that a response about a request has, so that later requests need no names."""
        if response.revision != self.revision:
            return
        names = {column.fact: column.names.names for column in request.columns if column.HasField("names")}
        for each in response.name_points:
            if each.fact in names and each.fact in self._known:
                points = unpacked(each.points, self._names[each.fact])
                for name, point in zip(names[each.fact], points, strict=True):
                    self._known[each.fact].keep(name, point)

    def _name_column(self, fact: str, names: Sequence[str]) -> AxisColumn:
        known = self._known[fact]
        try:
            return AxisColumn(fact=fact, points=packed(map(known.__getitem__, names), self._names[fact]))
        except KeyError:
            places: dict[str, int] = {}
            each = [places.setdefault(name, len(places)) for name in names]
            return AxisColumn(fact=fact, names=NameColumn(names=places, places=packed(each, len(places))))


def verdicts_of(response: CheckColumnsResponse) -> list[ToolVerdict]:
    """Return the verdict of each tool, in the order of the request. Tools with equal verdicts share one message."""
    distinct = list(response.distinct_verdicts)
    return [distinct[place] for place in unpacked(response.verdicts, len(distinct))]


def _names_in(request: CheckToolsRequest, fact: str) -> list[str]:
    if fact == "server.name":
        return [server.name for server in request.servers for _ in server.tools]
    return [tool.name for server in request.servers for tool in server.tools]


class _Reader:
    """Reads the points of servers or of tools. An axis with a fact that this version does not know has no column."""

    def __init__(self, axes: Iterable[policy_pb.Axis], declared: set[str], defaults: Mapping[str, str]) -> None:
        self._declared, self._defaults = declared, defaults
        self._axes: list[tuple[tuple[str, ...], dict[tuple[str, ...], int], int]] = []
        self._kept: BoundedCache[bytes, tuple[int, ...]] = BoundedCache(MAX_FACTS)
        for axis in axes:
            known = all(fact in _FIELDS or ".label." in fact or fact in declared for fact in axis.facts)
            if axis.points and known:
                points: dict[tuple[str, ...], int] = {}
                for number, point in enumerate(axis.points):
                    points.setdefault(tuple(point.values), number)
                self._axes.append((tuple(axis.facts), points, axis.size))

    def points(self, facts: _Group) -> tuple[int, ...]:
        """Return the point of each axis."""
        key = facts.SerializeToString(deterministic=True)
        found = self._kept.get(key)
        if found is None:
            fields = _fields(facts)
            found = tuple(self._point(names, points, fields, facts) for names, points, _ in self._axes)
            self._kept.keep(key, found)
        return found

    def columns(self, rows: Sequence[Sequence[int]]) -> Iterable[AxisColumn]:
        """Yield the column of each axis, from the points of each tool."""
        each = zip(*rows, strict=True) if rows else [()] * len(self._axes)
        for (names, _, size), column in zip(self._axes, each, strict=True):
            yield AxisColumn(fact=names[0], points=packed(column, size))

    def _point(
        self, names: Sequence[str], points: Mapping[tuple[str, ...], int], fields: Mapping[str, str], facts: _Group
    ) -> int:
        values = tuple(fields[name] if name in fields else self._keyed(name, facts) for name in names)
        if values in points:
            return points[values]
        # A label or a declared fact with a value that is not declared is unknown, or has the default.
        return points[tuple(self._defaults.get(name, UNKNOWN) for name in names)]

    def _keyed(self, name: str, facts: _Group) -> str:
        if name in self._declared:
            return facts.declared_facts.values.get(name, self._defaults.get(name, UNKNOWN))
        if not facts.HasField("labels"):
            return UNKNOWN
        value = facts.labels.values.get(name.partition(".label.")[2])
        return _NO_LABEL if value is None else UNKNOWN if value == _NO_LABEL else value


def _fields(facts: _Group) -> Mapping[str, str]:
    if isinstance(facts, facts_pb2.ServerFacts):
        return server_fields(facts)
    return tool_fields(facts) | hints(facts)
