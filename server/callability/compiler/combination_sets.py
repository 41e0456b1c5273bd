"""Sets of combinations of facts, of any size, and where conditions hold."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import chain, product
from math import inf, prod
from operator import and_, or_

from callability.compiler.nodes import EMPTY, FULL, MAX_STEPS, Node, Nodes, Points, TooManyNodes
from callability.compiler.question import Axis, DeclaredFact, LabelFact, Question
from callability.compiler.rule_set import RuleSet
from callability.contract.finding import Witness
from callability.contract.vocabulary import UNKNOWN
from callability.kernel.conditions import AllOf, AnyOf, Condition, Is, Not

Combination = tuple[str, ...]
"""A value for each fact of a space, in its order."""


@dataclass(frozen=True, slots=True)
class Space:
    """Every combination of the states of some axes."""

    question: Question
    axes: tuple[Axis, ...]

    @property
    def facts(self) -> tuple[str, ...]:
        """The facts that vary, in the order of the question."""
        return tuple(chain.from_iterable(axis.facts for axis in self.axes))

    @property
    def size(self) -> int:
        """How many combinations there are."""
        return prod(len(axis.points) for axis in self.axes)

    def combinations(self) -> Iterator[Combination]:
        """Yield every combination, always in the same order."""
        for points in product(*(axis.points for axis in self.axes)):
            yield tuple(chain.from_iterable(point.values for point in points))

    def named(self, combination: Combination) -> dict[str, str]:
        """Return every fact of the question: those that vary as the combination says, others as they fit."""
        return self.question.complete(dict(zip(self.facts, combination, strict=True)))

    def witness(self, facts: Mapping[str, str]) -> Witness:
        """Return the facts of one combination that are not at their default."""
        question = self.question.facts
        return tuple((fact, facts[fact]) for fact in self.facts if facts[fact] != question[fact].open_value)


def space_of(rule_set: RuleSet) -> Space:
    """Return the space of the facts that a rule or law reads, and of those that are always included."""
    return space_of_facts(rule_set.question, rule_set.reads)


def space_of_facts(question: Question, read: frozenset[str]) -> Space:
    """Return the space of some facts of a question, and of those that are always included."""
    axes = (axis for axis in question.axes if axis.always or not read.isdisjoint(axis.facts))
    return Space(question, tuple(axis.project(read) for axis in axes))


_FEW = 8
"""Points of an axis up to which it costs less to visit each child than to look for those that differ."""


class PointsAlong:
    """Searches the sets of one store of nodes.

    A look is a node that is visited. More than `looks` of them raise `TooManyNodes`, on every machine at the
    same place.
    """

    def __init__(self, nodes: Nodes, looks: float = inf) -> None:
        self._nodes = nodes
        self._looks = looks
        self._every = tuple(frozenset(range(size)) for size in nodes.points)
        self._bits: dict[Node, Mapping[Node, int]] = {}

    def find(self, node: Node, axis: int, within: Sequence[Points], *, every: bool) -> frozenset[int]:
        """Return the points of an axis at which a set has some combination of a box of the other axes, or every one.

        Raises:
            TooManyNodes: it needs too many looks.
        """
        axis_of, sizes = self._nodes.axis, self._nodes.points
        bits = (1 << sizes[axis]) - 1
        done: dict[Node, int] = {EMPTY: 0, FULL: bits}
        last = max(
            (axis, *(place for place, each in enumerate(within) if each is not None and len(each) < sizes[place]))
        )

        def found(node: Node) -> int:
            known = done.get(node)
            if known is not None:
                return known
            tested = axis_of(node)
            if tested > last:
                # The box has every point of the axes that are left, and a node holds some of them, and not all.
                return 0 if every else bits
            if tested == axis:
                result = sum([bit for child, bit in self._bits_of(node).items() if found(child)])
            else:
                inside = self._inside(node, within[tested])
                # These two decide by themselves, whatever the other children are.
                if (EMPTY if every else FULL) in inside:
                    result = 0 if every else bits
                else:
                    result = bits if every else 0
                    for child in inside:
                        if child > FULL:
                            result = result & found(child) if every else result | found(child)
            done[node] = result
            self._looks -= 1
            if self._looks < 0:
                raise TooManyNodes
            return result

        return self._points_of(axis, found(node))

    def _points_of(self, axis: int, bits: int) -> frozenset[int]:
        """Return the points of an axis that are given as bits."""
        if bits & (bits - 1) == 0:
            return frozenset((bits.bit_length() - 1,)) if bits else frozenset()
        every = self._every[axis]
        return every if bits.bit_count() == len(every) else frozenset([point for point in every if bits >> point & 1])

    def _inside(self, node: Node, points: Points) -> Collection[Node]:
        """Return the children of a node at some points of its axis."""
        children = self._nodes.children(node)
        if points is None or len(points) == len(children):
            return children if len(children) <= _FEW else set(children)
        if len(points) == 1:
            (point,) = points
            return (children[point],)
        return {children[point] for point in points}

    def _bits_of(self, node: Node) -> Mapping[Node, int]:
        """Return the different children of a node, each with the points that lead to it as bits."""
        found = self._bits.get(node)
        if found is None:
            bits: dict[Node, int] = {}
            for point, child in enumerate(self._nodes.children(node)):
                bits[child] = bits.get(child, 0) | 1 << point
            found = self._bits[node] = bits
        return found


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
            case AllOf(parts=parts) | AnyOf(parts=parts):
                join, start = (and_, self.all) if isinstance(condition, AllOf) else (or_, self.none)
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
