"""Sets of combinations of facts, of any size, and where conditions hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from math import inf
from operator import and_, or_

from callability.finding import Witness
from callability.kernel.condition import All, Any, Condition, Is, Not
from callability.policy.deciding.nodes import EMPTY, FULL, MAX_STEPS, Node, Nodes
from callability.policy.deciding.points_along import PointsAlong
from callability.policy.deciding.space import Space
from callability.policy.questions.fact import Axis, DeclaredFact, LabelFact
from callability.policy.questions.question import Question
from callability.vocabulary import UNKNOWN

MAX_NODES = 600_000
"""Nodes that all sets of one rule set may have together while it is decided, or looked at."""


@dataclass(frozen=True, slots=True)
class CombinationSet:
    """A set of combinations of one space. Two sets of it are equal if they hold the same."""

    node: Node
    _nodes: Nodes = field(repr=False, compare=False)

    def __and__(self, other: CombinationSet) -> CombinationSet:
        """Return what is in both."""
        return CombinationSet(self._nodes.intersection(self.node, other.node), self._nodes)

    def __or__(self, other: CombinationSet) -> CombinationSet:
        """Return what is in either."""
        return CombinationSet(self._nodes.union(self.node, other.node), self._nodes)

    def __sub__(self, other: CombinationSet) -> CombinationSet:
        """Return what is in this set and not in the other."""
        return CombinationSet(self._nodes.difference(self.node, other.node), self._nodes)

    def __xor__(self, other: CombinationSet) -> CombinationSet:
        """Return what is in one of the sets alone."""
        return (self - other) | (other - self)

    def __invert__(self) -> CombinationSet:
        """Return what is not in it."""
        return CombinationSet(self._nodes.complement(self.node), self._nodes)

    def __bool__(self) -> bool:
        """Say whether it holds anything."""
        return self.node != EMPTY

    def __contains__(self, points: Sequence[int]) -> bool:
        """Say whether it holds the combination with these points, in the order in which axes are tested."""
        node = self.node
        while children := self._nodes.children(node):
            node = children[points[self._nodes.axis(node)]]
        return node == FULL

    @property
    def size(self) -> int:
        """How many combinations it holds."""
        return self._nodes.size(self.node)


@dataclass(frozen=True, slots=True)
class Truths:
    """Where a condition is certainly true, and where it may be: true or undetermined."""

    certain: CombinationSet
    possible: CombinationSet


class CombinationSets:
    """The sets of one space, whose axes are tested in an order: the numbers of the axes.

    Each operation raises `TooManyNodes` where it would need more than `most` nodes, or all together more than `steps`
    or `looks`.
    """

    def __init__(
        self,
        space: Space,
        order: Sequence[int] | None = None,
        *,
        most: int = MAX_NODES,
        steps: int = MAX_STEPS,
        looks: float = inf,
    ) -> None:
        self.space = space
        self.order = tuple(range(len(space.axes)) if order is None else order)
        self.axes = tuple(space.axes[number] for number in self.order)
        self.nodes = Nodes([len(axis.points) for axis in self.axes], most, steps)
        self.along = PointsAlong(self.nodes, looks)
        self.all = self.of(FULL)
        self.none = self.of(EMPTY)
        self._place = {fact: place for place, axis in enumerate(self.axes) for fact in axis.facts}
        self._truths: dict[Is, Truths] = {}
        self._having: dict[str, Mapping[str, frozenset[int]]] = {}

    def of(self, node: Node) -> CombinationSet:
        """Return the set that a node describes."""
        return CombinationSet(node, self.nodes)

    def place(self, fact: str) -> int:
        """Return the place of the axis of a fact in the order of tests.

        Raises:
            KeyError: the fact does not vary.
        """
        return self._place[fact]

    def having(self, fact: str) -> Mapping[str, frozenset[int]]:
        """Return the points of the axis of a fact at which it has each of its readings.

        Raises:
            KeyError: the fact does not vary.
        """
        if fact not in self._having:
            axis = self.axes[self._place[fact]]
            number = axis.facts.index(fact)
            found: dict[str, set[int]] = {reading: set() for reading in self.space.question.facts[fact].readings}
            for point, state in enumerate(axis.points):
                found[state.values[number]].add(point)
            self._having[fact] = {reading: frozenset(points) for reading, points in found.items()}
        return self._having[fact]

    def where_points(self, place: int, wanted: Callable[[tuple[str, ...]], bool]) -> CombinationSet:
        """Return where the values of an axis, given by its place, are wanted ones."""
        points = self.axes[place].points
        return self.of(self.nodes.node(place, tuple(FULL if wanted(each.values) else EMPTY for each in points)))

    def where(self, fact: str, values: Iterable[str]) -> CombinationSet:
        """Return where a fact has one of the values; a fact that no rule and no law reads is at its default."""
        if fact not in self._place:
            return self.all if self.space.question.facts[fact].open_value in frozenset(values) else self.none
        having = self.having(fact)
        place = self._place[fact]
        children = [EMPTY] * self.nodes.points[place]
        for value in values:
            for point in having.get(value, ()):
                children[point] = FULL
        return self.of(self.nodes.node(place, tuple(children)))

    def truths(self, condition: Condition | None, question: Question | None = None) -> Truths:
        """Return where a condition holds, in Kleene's logic; none holds everywhere.

        The space may be that of two rule sets. The condition is one of the rule set with this `question` then, and a
        label or a declared fact is read as that rule set declares it.
        """
        match condition:
            case None:
                return Truths(self.all, self.all)
            case Is(fact=fact):
                own = question.facts[fact] if question else None
                if isinstance(own, DeclaredFact | LabelFact) and own != self.space.question.facts[fact]:
                    return self._truths_of(condition, own)
                if condition not in self._truths:
                    certain = self.where(fact, self.space.question.facts[fact].held_by(condition.values))
                    self._truths[condition] = Truths(certain, certain | self.where(fact, (UNKNOWN,)))
                return self._truths[condition]
            case Not(part=part):
                opposite = self.truths(part, question)
                return Truths(~opposite.possible, ~opposite.certain)
            case All(parts=parts) | Any(parts=parts):
                join, start = (and_, self.all) if isinstance(condition, All) else (or_, self.none)
                each = [self.truths(part, question) for part in parts]
                return Truths(
                    reduce(join, (one.certain for one in each), start),
                    reduce(join, (one.possible for one in each), start),
                )

    def _truths_of(self, condition: Is, own: DeclaredFact | LabelFact) -> Truths:
        """Return where a condition holds about a fact that one of two rule sets declares otherwise than the other."""
        readings = {each: own.reading(each) for each in self.space.question.facts[own.name].readings}
        certain = self.where(own.name, (each for each, read in readings.items() if read in condition.values))
        unknown = self.where(own.name, (each for each, read in readings.items() if read == UNKNOWN))
        return Truths(certain, certain | unknown)

    def spread(self, given: CombinationSet, along: Axis) -> CombinationSet:
        """Return a set with every combination that differs from one of it along an axis alone."""
        place = self._place[along.facts[0]]
        return self.of(self.nodes.somewhere(given.node, place, range(len(along.points))))

    def simplest(self, given: CombinationSet) -> tuple[int, ...]:
        """Return the points of one combination of a set that is not empty, in the order in which axes are tested.

        Its facts are open, or else known, where they can be, the first facts first.
        """
        facts = self.space.question.facts
        tested = {self.nodes.axis(node) for node in self.nodes.below(given.node)}
        within: list[frozenset[int]] = [frozenset(range(points)) for points in self.nodes.points]

        def possible(place: int) -> frozenset[int]:
            """Return the points of an axis with which a combination of the set is left."""
            if place not in tested or len(within[place]) == 1:
                return within[place]
            return within[place] & self.along.find(given.node, place, within, every=False)

        for axis in self.space.axes:
            place = self._place[axis.facts[0]]
            left = possible(place)
            for number, fact in enumerate(axis.facts):
                for values in ((facts[fact].open_value,), facts[fact].values):
                    if narrower := frozenset(n for n in left if axis.points[n].values[number] in values):
                        left = narrower
                        break
            within[place] = left
        for axis in self.space.axes:
            place = self._place[axis.facts[0]]
            within[place] = frozenset((min(possible(place)),))
        return tuple(point for points in within for point in points)

    def named(self, points: Sequence[int]) -> dict[str, str]:
        """Return every fact of a combination, given by the points of the axes in the order in which they are tested."""
        states: dict[str, str] = {}
        for axis, point in zip(self.axes, points, strict=True):
            states |= zip(axis.facts, axis.points[point].values, strict=True)
        return self.space.named(tuple(states[fact] for fact in self.space.facts))

    def facts(self, given: CombinationSet) -> dict[str, str]:
        """Return every fact of the simplest combination of a set that is not empty."""
        return self.named(self.simplest(given))

    def witness(self, given: CombinationSet) -> Witness:
        """Return the simplest combination of a set that is not empty, without the facts at their default."""
        return self.space.witness(self.facts(given))

    def holds(self, given: CombinationSet, facts: Mapping[str, str]) -> bool:
        """Say whether a set holds the combination of these facts, all of which have values of the space."""
        return self.points_of(facts) in given

    def points_of(self, facts: Mapping[str, str]) -> tuple[int, ...]:
        """Return the points of a combination of facts, in the order in which axes are tested.

        Raises:
            ValueError: the facts cannot occur together.
        """
        return tuple(
            [point.values for point in axis.points].index(tuple(facts[fact] for fact in axis.facts))
            for axis in self.axes
        )
