"""Describing a set of combinations by few conditions, each of a few facts with a few values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from operator import or_

from callability.policy.deciding.combination_set import CombinationSet, CombinationSets
from callability.policy.questions.fact import Axis

Box = Mapping[str, tuple[str, ...]]
"""For each fact of a space the readings that it may have: every combination of them that can occur."""


def boxes(wanted: CombinationSet, allowed: CombinationSet, sets: CombinationSets) -> Iterator[Box]:
    """Yield boxes that together hold all of `wanted`, and nothing that is not `allowed`, of which it is a part.

    Each begins at the simplest combination that is not in one before, and is widened: by whole facts, the last first,
    since conditions are read from the left; then by single values with which something comes in that is left.
    """
    left = wanted
    widening = _Widening(allowed, sets)
    while left:
        box = widening.box(left)
        yield box
        left -= combinations_in(box, sets)


def needed(found: Sequence[Box], wanted: CombinationSet, sets: CombinationSets) -> tuple[Box, ...]:
    """Return the boxes without which something wanted would be in none, of boxes that hold all of it."""
    if len(found) == 1:
        return (*found,)
    held = [combinations_in(box, sets) & wanted for box in found]
    before = [*accumulate(held, or_, initial=sets.none)]
    after = sets.none
    kept: list[int] = []
    for number in reversed(range(len(found))):
        if held[number] - (before[number] | after):
            kept.append(number)
            after |= held[number]
    return tuple(found[number] for number in reversed(kept))


def combinations_in(box: Box, sets: CombinationSets) -> CombinationSet:
    """Return the combinations that a box holds."""
    return sets.of(sets.nodes.box([_points_of(axis, box, sets) for axis in sets.axes]))


def _points_of(axis: Axis, box: Box, sets: CombinationSets) -> frozenset[int] | None:
    """Return the points of an axis that are in a box; None for all."""
    narrow = [fact for fact in axis.facts if fact in box and len(box[fact]) < len(sets.having(fact))]
    return frozenset.intersection(*(_having(fact, box[fact], sets) for fact in narrow)) if narrow else None


def _having(fact: str, readings: Iterable[str], sets: CombinationSets) -> frozenset[int]:
    """Return the points of the axis of a fact at which it has one of some readings."""
    having = sets.having(fact)
    return frozenset().union(*(having[reading] for reading in readings))


class _Widening:
    """Finds the box around the simplest combination of what is left."""

    def __init__(self, allowed: CombinationSet, sets: CombinationSets) -> None:
        self._allowed = allowed
        self._sets = sets
        self._readings: dict[str, tuple[str, ...]] = {}
        self._within: list[frozenset[int]] = []

    def box(self, left: CombinationSet) -> Box:
        """Return a box around what is left, as wide as it can be."""
        simplest = self._sets.simplest(left)
        named = self._sets.named(simplest)
        facts = self._sets.space.question.facts
        self._readings = {fact: (named[fact],) for fact in self._sets.space.facts}
        self._within = [frozenset((point,)) for point in simplest]
        for fact in reversed(self._sets.space.facts):
            self._widen(fact, facts[fact].readings)
        for fact in self._sets.space.facts:
            if len(self._readings[fact]) < len(facts[fact].readings):
                self._add(fact, facts[fact].readings, left)
        return self._readings

    def _widen(self, fact: str, readings: tuple[str, ...]) -> None:
        """Let a fact have all of some readings if nothing comes in that is not allowed."""
        place = self._sets.place(fact)
        widened = self._fitting(fact, place)
        if widened <= self._along(self._allowed, place, every=True):
            self._readings[fact] = readings
            self._within[place] = widened

    def _add(self, fact: str, readings: tuple[str, ...], left: CombinationSet) -> None:
        """Add each reading with which something comes in that is left, and nothing that is not allowed."""
        place = self._sets.place(fact)
        fitting = self._fitting(fact, place)
        inside = self._along(self._allowed, place, every=True)
        if fitting & inside <= self._within[place]:
            return
        some = self._along(left, place, every=False)
        had, having = self._readings[fact], self._sets.having(fact)
        added = tuple(
            reading
            for reading in readings
            if reading not in had and (gained := fitting & having[reading]) <= inside and gained & some
        )
        self._readings[fact] = (*had, *added)
        self._within[place] |= fitting & _having(fact, added, self._sets)

    def _fitting(self, fact: str, place: int) -> frozenset[int]:
        """Return the points of an axis at which its facts, besides one, have their readings."""
        points = frozenset(range(self._sets.nodes.points[place]))
        for other in self._sets.axes[place].facts:
            if other != fact:
                points &= _having(other, self._readings[other], self._sets)
        return points

    def _along(self, given: CombinationSet, place: int, *, every: bool) -> frozenset[int]:
        return self._sets.along.find(given.node, place, self._within, every=every)
