"""Where each unknown fact keeps a condition undetermined."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from itertools import combinations, product
from operator import or_

from callability.kernel.condition import Condition, facts_read
from callability.policy.deciding.combination_set import CombinationSet, CombinationSets
from callability.policy.deciding.nodes import EMPTY, Node
from callability.policy.questions.fact import Axis
from callability.vocabulary import UNKNOWN


class UnreadSets:
    """Finds, for conditions, where a fact is unread.

    A *completion* gives every unknown fact a known value, so that the facts of each axis are at one of its points. Take
    two completions under which the condition has different truths, and the facts that it reads in which they differ. A
    fact is unread if it belongs to such a set of facts that contains no smaller one. Facts that vary by themselves make
    sets of one: such a fact is unread if another value of it alone can change the truth.

    Kleene's logic does not see that `any: [{a: true}, {a: false}]` holds whatever `a` is. For such a condition every
    unknown fact that it reads is unread, so that none is only where the condition is decided (spec A.1).
    """

    def __init__(self, sets: CombinationSets) -> None:
        self._sets = sets
        self._nodes = sets.nodes
        self._known = [[n for n, point in enumerate(axis.points) if UNKNOWN not in point.values] for axis in sets.axes]
        self._completing = [
            [_completions(axis, point.values, known) for point in axis.points]
            for axis, known in zip(sets.axes, self._known, strict=True)
        ]
        self._completed_by = [
            [frozenset(n for n, points in enumerate(each) if point in points) for point in range(len(each))]
            for each in self._completing
        ]
        self._completed: dict[Node, Node] = {}

    def by_fact(self, condition: Condition) -> dict[str, CombinationSet]:
        """Return, for each fact that a condition reads, in the order of the facts, where it is unread."""
        sets = self._sets
        truths = sets.truths(condition)
        undetermined = truths.possible - truths.certain
        if not undetermined:
            return {}
        read = frozenset(facts_read(condition))
        found = dict.fromkeys((fact for fact in sets.space.question.facts if fact in read), sets.none)
        for place, axis in enumerate(sets.axes):
            mine = read.intersection(axis.facts)
            if mine:
                for facts, where in self._changed_by(truths.certain.node, place, mine):
                    for fact in facts:
                        found[fact] |= where & undetermined
        left = undetermined
        for where in found.values():
            left -= where
        return {fact: where | (left & sets.where(fact, (UNKNOWN,))) for fact, where in found.items()}

    def _changed_by(
        self, true: Node, place: int, read: frozenset[str]
    ) -> Iterator[tuple[frozenset[str], CombinationSet]]:
        """Yield sets of facts of an axis, each with where their values, and no fewer, can change the truth."""
        axis = self._sets.axes[place]
        if len(axis.facts) == 1:
            known = self._known[place]
            differs = self._nodes.difference(
                self._nodes.somewhere(true, place, known), self._nodes.everywhere(true, place, known)
            )
            yield read, self._sets.of(self._complete(differs)) & self._sets.where(axis.facts[0], (UNKNOWN,))
            return
        changed = self._changed_together(true, place, read)
        for facts, where in changed.items():
            by_fewer = (already for fewer, already in changed.items() if fewer < facts)
            yield facts, where - reduce(or_, by_fewer, self._sets.none)

    def _changed_together(self, true: Node, place: int, read: frozenset[str]) -> dict[frozenset[str], CombinationSet]:
        """Return sets of facts of an axis, each with where their values can change the truth."""
        axis = self._sets.axes[place]
        # A few sets for many points: of two points with the same, the facts in which they differ do not matter.
        alike: dict[Node, list[int]] = {}
        for point in self._known[place]:
            alike.setdefault(self._nodes.at(true, place, point), []).append(point)
        found: dict[frozenset[str], CombinationSet] = {}
        for (left, ones), (right, others) in combinations(alike.items(), 2):
            differs = self._nodes.union(self._nodes.difference(left, right), self._nodes.difference(right, left))
            where = self._complete(differs)
            for facts, here in self._differing(axis, place, read, ones, others).items():
                changed = self._sets.of(self._nodes.restricted(where, place, here))
                found[facts] = found.get(facts, self._sets.none) | changed
        return found

    def _differing(
        self, axis: Axis, place: int, read: frozenset[str], ones: Iterable[int], others: Iterable[int]
    ) -> dict[frozenset[str], set[int]]:
        """Return sets of facts in which two points differ, each with the points that both of the two complete."""
        read_at = [number for number, fact in enumerate(axis.facts) if fact in read]
        found: dict[frozenset[str], set[int]] = {}
        for one, other in product(ones, others):
            left, right = axis.points[one].values, axis.points[other].values
            facts = frozenset(axis.facts[number] for number in read_at if left[number] != right[number])
            if facts:
                found.setdefault(facts, set()).update(self._completed_by[place][one] & self._completed_by[place][other])
        return found

    def _complete(self, node: Node) -> Node:
        """Return the combinations, known or not, of which some completion is in a set of known ones."""
        if not self._nodes.children(node):
            return node
        found = self._completed.get(node)
        if found is None:
            place = self._nodes.axis(node)
            children = self._nodes.children(node)
            known = dict.fromkeys([children[point] for point in self._known[place]])
            complete = {child: self._complete(child) for child in known}
            each = [
                complete[children[points[0]]] if len(points) == 1 else self._joined(children, points, complete)
                for points in self._completing[place]
            ]
            found = self._completed[node] = self._nodes.node(place, tuple(each))
        return found

    def _joined(self, children: tuple[Node, ...], points: list[int], complete: Mapping[Node, Node]) -> Node:
        """Return what any of some points of an axis leads to, completed."""
        joined = EMPTY
        for child in dict.fromkeys([complete[children[point]] for point in points]):
            joined = self._nodes.union(joined, child)
        return joined


def _completions(axis: Axis, state: tuple[str, ...], known: list[int]) -> list[int]:
    """Return which of the known points of an axis its facts may be at, given those that are known."""
    if UNKNOWN not in state:
        return [point for point in known if axis.points[point].values == state]
    return [
        point
        for point in known
        if all(value in {UNKNOWN, other} for value, other in zip(state, axis.points[point].values, strict=True))
    ]
