"""Describing a set of combinations by few conditions, each of a few facts with a few values."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from callability.policy.deciding.combination_set import CombinationSet, CombinationSets
from callability.policy.deciding.nodes import EMPTY, FULL, Node
from callability.policy.questions.fact import Axis

Box = Mapping[str, tuple[str, ...]]
"""For each fact of a space the readings that it may have: every combination of them that can occur."""

_Points = tuple[frozenset[int], ...]
"""A box as the points of each axis, in the order in which axes are tested."""


def boxes(wanted: CombinationSet, allowed: CombinationSet, sets: CombinationSets) -> Iterator[Box]:
    """Yield boxes that together hold all of `wanted`, and nothing that is not `allowed`, of which it is a part.

    Each begins at the simplest combination that is not in one before, and is widened: by whole facts, the last first,
    since conditions are read from the left; then by single values with which something comes in that is left.
    """
    left = wanted
    while left:
        box = _Widening(left, allowed, sets).box()
        yield box
        left -= combinations_in(box, sets)


def needed(found: Sequence[Box], wanted: CombinationSet, sets: CombinationSets) -> tuple[Box, ...]:
    """Return the boxes without which something wanted would be in none, of boxes that hold all of it."""
    held = [combinations_in(box, sets) & wanted for box in found]
    kept = list(range(len(found)))
    for number in reversed(range(len(found))):
        others = sets.none
        for other in kept:
            if other != number:
                others |= held[other]
        if not held[number] - others:
            kept.remove(number)
    return tuple(found[number] for number in kept)


def combinations_in(box: Box, sets: CombinationSets) -> CombinationSet:
    """Return the combinations that a box holds."""
    found = sets.all
    for fact, values in box.items():
        found &= sets.where(fact, values)
    return found


class _Widening:
    """The box around the simplest combination of what is left."""

    def __init__(self, left: CombinationSet, allowed: CombinationSet, sets: CombinationSets) -> None:
        self._left = left
        self._allowed = allowed
        self._sets = sets
        facts = sets.facts(left)
        self._readings: dict[str, tuple[str, ...]] = {fact: (facts[fact],) for fact in sets.space.facts}

    def box(self) -> Box:
        """Return the box, as wide as it can be."""
        facts = self._sets.space.question.facts
        for fact in reversed(self._sets.space.facts):
            self._widen(fact, facts[fact].readings)
        for fact in self._sets.space.facts:
            readings = facts[fact].readings
            if len(self._readings[fact]) < len(readings):
                self._add(fact, readings)
        return self._readings

    def _widen(self, fact: str, readings: tuple[str, ...]) -> None:
        """Let a fact have all of some readings if nothing comes in that is not allowed."""
        place = self._sets.place(fact)
        inside = along(self._allowed.node, place, self._points(), self._sets, every=True)
        if all(inside[point] for point in self._axis_points(place, self._readings | {fact: readings})):
            self._readings[fact] = readings

    def _add(self, fact: str, readings: tuple[str, ...]) -> None:
        """Add each reading with which something comes in that is left, and nothing that is not allowed."""
        place = self._sets.place(fact)
        points = self._points()
        inside = along(self._allowed.node, place, points, self._sets, every=True)
        some = along(self._left.node, place, points, self._sets, every=False)
        axis = self._sets.axes[place]
        at = axis.facts.index(fact)
        gained: dict[str, list[int]] = {reading: [] for reading in readings if reading not in self._readings[fact]}
        for point in points_of(axis, self._readings | {fact: tuple(gained)}):
            gained[axis.points[point].values[at]].append(point)
        more = [
            reading
            for reading, numbers in gained.items()
            if all(inside[point] for point in numbers) and any(some[point] for point in numbers)
        ]
        self._readings[fact] = (*self._readings[fact], *more)

    def _points(self) -> _Points:
        return tuple(self._axis_points(place, self._readings) for place in range(len(self._sets.axes)))

    def _axis_points(self, place: int, readings: Mapping[str, Collection[str]]) -> frozenset[int]:
        return points_of(self._sets.axes[place], readings)


def points_of(axis: Axis, readings: Mapping[str, Collection[str]]) -> frozenset[int]:
    """Return the points of an axis at which each of its facts has one of some readings."""
    allowed = [frozenset(readings[fact]) for fact in axis.facts]
    return frozenset(
        number
        for number, point in enumerate(axis.points)
        if all(value in each for value, each in zip(point.values, allowed, strict=True))
    )


def along(node: Node, place: int, points: _Points, sets: CombinationSets, *, every: bool) -> tuple[bool, ...]:
    """Say for each point of an axis whether a set holds there every combination, or any, of a box of the other axes."""
    nodes = sets.nodes
    count = nodes.points[place]
    joined = all if every else any
    done: dict[Node, tuple[bool, ...]] = {}

    def found(node: Node) -> tuple[bool, ...]:
        if node in {EMPTY, FULL}:
            return (node == FULL,) * count
        if node not in done:
            axis, children = nodes.axis(node), nodes.children(node)
            if axis == place:
                done[node] = tuple(found(child)[0] for child in children)
            else:
                each = dict.fromkeys(children[point] for point in points[axis])
                done[node] = tuple(map(joined, zip(*map(found, each), strict=True)))
        return done[node]

    return found(node)
