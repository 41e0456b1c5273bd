"""The columns of a `CheckColumnsRequest`, as points of axes that are in their ranges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from callability.packed_numbers import packed, unpacked, width_of
from callability.policy.loading import Policy
from callability.policy.questions.fact import NameFact
from callability.service.fast_path import lazy_messages
from callability.service.fast_path.turn import AT_ONCE, Turn
from callability.service.requests import limits, request_size
from callability.service.requests.errors import InvalidRequest, RevisionChanged
from callability.service.requests.parsing import parsed
from callability.service.translation.axes import subject_of
from callability.service.translation.tool_facts import FactReader
from callability.v1 import callability_service_pb2 as pb

_NAMES = {"server.name": "server", "tool.name": "tool"}
_EVERY = bytes(range(256))


@dataclass(frozen=True, slots=True)
class ColumnAxis:
    """An axis of which requests may have a column. `absent` is the point of facts that are absent; None: it is needed.

    `names` are the points of names by their representatives, if the fact is one.
    """

    fact: str
    states: tuple[Mapping[str, str], ...]
    absent: int | None
    name: NameFact | None = None
    names: Mapping[str, int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """How many points there are."""
        return len(self.states)


def column_axes(policy: Policy, reader: FactReader) -> tuple[ColumnAxis, ...]:
    """Return the axes of a policy that requests may have columns of."""
    space = policy.rule_sets["callability"].diagram.space
    absent = reader.read(b"", b"").values
    found = []
    for axis in space.axes:
        first = space.question.facts[axis.facts[0]]
        if subject_of(first) == "agent":
            continue
        states = tuple(dict(zip(axis.facts, point.values, strict=True)) for point in axis.points)
        if isinstance(first, NameFact):
            names = {state[first.name]: number for number, state in enumerate(states)}
            found.append(ColumnAxis(first.name, states, None, first, names))
        else:
            found.append(ColumnAxis(first.name, states, states.index({fact: absent[fact] for fact in axis.facts})))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Points:
    """For each axis the points of the tools, and the points of names by fact, packed."""

    columns: Sequence[Sequence[int]]
    of_names: Mapping[str, bytes]


class PointReader:
    """Reads the columns of requests by the axes of one policy."""

    def __init__(self, axes: Sequence[ColumnAxis], revision: str) -> None:
        self._axes = axes
        self._by_fact = {axis.fact: axis for axis in axes}
        self._revision = revision

    async def read(self, request: Any, turn: Turn) -> Points:
        """Return the points in a lazy `CheckColumnsRequest`.

        Raises:
            InvalidRequest: a column is not one.
            RevisionChanged: the points are those of another revision.
        """
        tools = request.tools
        columns = _columns(request.columns)
        self._check_revision(request.revision, has_points=any(not each.HasField("names") for each in columns.values()))
        found: dict[str, Sequence[int]] = {}
        of_names: dict[str, bytes] = {}
        for fact, column in columns.items():
            axis = self._by_fact.get(fact)
            if column.HasField("names"):
                names = _names_of(fact, column.names, tools)
                await _check_names(names.names, _NAMES[fact], turn)
                if axis is not None:
                    points = [axis.names[each] for each in await _representatives(axis, names.names, turn)]
                    places = _in_range(fact, names.places, len(names.names), tools)
                    found[fact] = _looked_up(points, places, axis.size, len(names.names))
                    of_names[fact] = packed(points, axis.size)
            elif axis is None:
                known = ", ".join(self._by_fact) or "none"
                raise InvalidRequest(
                    "COLUMN_UNKNOWN", f"column `{fact}` is of no axis of the policy, which has {known}"
                )
            else:
                found[fact] = _in_range(fact, column.points, axis.size, tools)
        return Points([self._column(axis, found, tools) for axis in self._axes], of_names)

    def _check_revision(self, revision: bytes, *, has_points: bool) -> None:
        if not revision and has_points:
            raise InvalidRequest("REVISION_EMPTY", "a column has points, and the request names no revision for them")
        if revision and revision != self._revision.encode():
            found = f"the points are those of revision {revision[:64].decode(errors='replace')}"
            raise RevisionChanged("REVISION_CHANGED", f"{found}, and the policy has revision {self._revision}")

    @staticmethod
    def _column(axis: ColumnAxis, found: Mapping[str, Sequence[int]], tools: int) -> Sequence[int]:
        if axis.fact in found:
            return found[axis.fact]
        if axis.absent is None:
            raise InvalidRequest("COLUMN_MISSING", f"the request has no column `{axis.fact}`, which rules read")
        return bytes([axis.absent]) * tools if axis.size <= len(_EVERY) else [axis.absent] * tools


def _columns(encoded: Sequence[bytes]) -> Mapping[str, Any]:
    """Return lazy columns by their facts."""
    found: dict[str, Any] = {}
    for each in encoded:
        column = lazy_messages.read(pb.AxisColumn, each)
        fact = column.fact[: limits.NAME_BYTES].decode(errors="replace")
        if fact in found:
            raise InvalidRequest("COLUMN_REPEATED", f"the request has two columns `{fact}`, and may have one")
        found[fact] = column
    return found


def _names_of(fact: str, encoded: bytes, tools: int) -> pb.NameColumn:
    if fact not in _NAMES:
        raise InvalidRequest("COLUMN_UNKNOWN", f"column `{fact}` has names, and only {' and '.join(_NAMES)} may")
    request_size.check_names(encoded)
    names = parsed(pb.NameColumn, encoded)
    _in_range(fact, names.places, len(names.names), tools)
    return names


async def _check_names(names: Sequence[str], what: str, turn: Turn) -> None:
    for start in range(0, len(names), AT_ONCE):
        await turn.others()
        for name in names[start : start + AT_ONCE]:
            limits.check_name(name.encode(), what)


async def _representatives(axis: ColumnAxis, names: Sequence[str], turn: Turn) -> list[str]:
    assert axis.name is not None
    found: list[str] = []
    for start in range(0, len(names), AT_ONCE):
        await turn.others()
        found += map(axis.name.classes.representative, names[start : start + AT_ONCE])
    return found


def _looked_up(points: Sequence[int], places: Sequence[int], size: int, names: int) -> Sequence[int]:
    """Return the point of each tool, by the place of its name."""
    if size <= len(_EVERY) and names <= len(_EVERY):
        return bytes(places).translate(bytes(points).ljust(len(_EVERY), b"\0"))
    found = map(points.__getitem__, places)
    return bytes(found) if size <= len(_EVERY) else list(found)


def _in_range(fact: str, column: bytes, count: int, tools: int) -> Sequence[int]:
    """Return the numbers in a column of so many tools, each below a count."""
    width = width_of(count)
    if len(column) != width * tools:
        wanted = f"{width * tools:,} are wanted, {width} for each of {tools:,} tools"
        raise InvalidRequest("COLUMN_LENGTH", f"column `{fact}` has {len(column):,} bytes, and {wanted}")
    numbers = unpacked(column, count)
    wrong = bool(column.translate(None, _EVERY[:count])) if width == 1 else max(numbers, default=0) >= count
    if wrong:
        place = next(place for place, number in enumerate(numbers) if number >= count)
        found = f"column `{fact}` has {numbers[place]} for tool {place:,}"
        raise InvalidRequest("COLUMN_POINT", f"{found}, and there are {count:,}, numbered from 0")
    return numbers
