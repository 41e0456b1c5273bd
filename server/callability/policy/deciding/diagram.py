"""The decision diagram: the verdict for every combination of facts, found by testing few of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import chain
from typing import Any, TypeVar

from callability.policy.deciding.combination_set import CombinationSet, CombinationSets
from callability.policy.deciding.nodes import EMPTY, FULL, Node
from callability.policy.deciding.space import Combination, Space
from callability.policy.questions.fact import Axis, Fact
from callability.policy.rules.verdict import Verdict

Result = TypeVar("Result", Verdict, bool)


@dataclass(frozen=True, slots=True)
class InnerNode:
    """A node that tests an axis: the place of that axis, and for each of its points a number.

    A number below the number of results is a result. Any other is an inner node, counted from there.
    """

    place: int
    children: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class UnreadNodes:
    """Where facts keep rules undetermined: for each rule and fact, the number of an inner node or of a result.

    The results are 0, the fact does not matter, and 1, it is unread. `inner` are in an order as in a diagram.
    """

    first: Mapping[str, Mapping[str, int]]
    inner: tuple[InnerNode, ...]


@dataclass(frozen=True)
class DecisionDiagram:
    """All verdicts of a rule set. It is never changed.

    The axes are tested in `order`, numbers of the axes of the space. `inner` are the inner nodes, each after its
    children; the last is the first to be made. No two are equal, and none has children that are all the same. So two
    rule sets with the same verdicts have equal diagrams if their axes are tested in the same order. The facts that keep
    a verdict undetermined are in nodes of their own: for a rule that reads n facts there may be 2**n sets of them.
    """

    space: Space
    order: tuple[int, ...]
    verdicts: tuple[Verdict, ...]
    inner: tuple[InnerNode, ...]
    unread_nodes: UnreadNodes

    @cached_property
    def verdict(self) -> Callable[[Mapping[str, str]], Verdict]:
        """What returns the verdict of a combination of facts, by name; facts that do not matter are not looked at.

        Of a fact that is a name or a label, what was read is given: its class is found here. It raises `KeyError` if a
        fact that matters is missing, or if what was looked at of the facts cannot occur together.
        """
        return _walk(_branches(self, self.inner, self.verdicts)[self.root])

    def unread(self, verdict: Verdict, facts: Mapping[str, str]) -> tuple[str, ...]:
        """Return the unknown facts that keep a verdict undetermined, in the order of the facts; none if it is not.

        Raises:
            KeyError: a fact that matters is missing.
        """
        if not verdict.undetermined:
            return ()
        return tuple(fact for fact, is_unread in self._unread[verdict.rule] if is_unread(facts))

    def unread_at(self, facts: Mapping[str, str]) -> tuple[str, ...]:
        """Return the unknown facts that keep the verdict for some facts undetermined, in the order of the facts.

        Raises:
            KeyError: a fact that matters is missing.
        """
        return self.unread(self.verdict(facts), facts)

    @cached_property
    def _unread(self) -> Mapping[str, tuple[tuple[str, Callable[[Mapping[str, str]], bool]], ...]]:
        found = _branches(self, self.unread_nodes.inner, (False, True))
        return {
            rule: tuple((fact, _walk(found[number])) for fact, number in facts.items())
            for rule, facts in self.unread_nodes.first.items()
        }

    @cached_property
    def axes(self) -> tuple[Axis, ...]:
        """The axes in the order in which they are tested."""
        return tuple(self.space.axes[number] for number in self.order)

    @property
    def root(self) -> int:
        """The number of the first inner node, or of the only verdict."""
        return len(self.verdicts) + len(self.inner) - 1 if self.inner else 0

    def node(self, number: int) -> InnerNode | None:
        """Return the inner node with a number; None if it is a verdict."""
        return self.inner[number - len(self.verdicts)] if number >= len(self.verdicts) else None

    def branches(self, node: InnerNode) -> dict[int, tuple[int, ...]]:
        """Return the different children of a node, each with the points of the axis that lead to it."""
        found: dict[int, list[int]] = {}
        for point, child in enumerate(node.children):
            found.setdefault(child, []).append(point)
        return {child: tuple(points) for child, points in found.items()}

    @cached_property
    def regions(self) -> int:
        """How many regions there are: paths from the root to a verdict, by inner nodes and their different children."""
        count = [1] * len(self.verdicts)
        for node in self.inner:
            count.append(sum(count[child] for child in dict.fromkeys(node.children)))
        return count[self.root]

    @cached_property
    def first(self) -> Any:
        """The first node, as explanations go through the diagram."""
        found: list[_AtPoint | Verdict] = list(self.verdicts)
        for node in self.inner:
            found.append((node.place, tuple([found[child] for child in node.children])))
        return found[self.root]

    def facts_of_axis(self, number: int) -> tuple[str, ...]:
        """Return the names of the facts of an axis, by its place among the tests."""
        return self.axes[number].facts

    def points_of_axis(self, number: int) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Return the points of an axis in order, each with the readings of its facts."""
        return enumerate(point.values for point in self.axes[number].points)

    def reading(self, fact: str, given: str) -> str:
        """Return the reading of a given value of a fact."""
        return self.space.question.facts[fact].reading(given)

    @cached_property
    def verdict_at(self) -> Callable[[Sequence[int]], Verdict]:
        """What returns the verdict of a combination, given by the points of its axes in the order of the tests."""
        first = self.first

        def result(points: Sequence[int]) -> Verdict:
            node: Any = first
            while type(node) is tuple:
                place, children = node
                node = children[points[place]]
            verdict: Verdict = node
            return verdict

        return result

    def sets(self) -> tuple[CombinationSets, dict[Verdict, CombinationSet]]:
        """Return for each verdict where it is given, as sets of the diagram's space and order.

        Raises:
            TooManyNodes: the sets would be too large.
        """
        sets = CombinationSets(self.space, self.order)
        found: list[dict[int, Node]] = [{number: FULL} for number in range(len(self.verdicts))]
        last = {child: number for number, node in enumerate(self.inner) for child in node.children}
        for number, node in enumerate(self.inner):
            below = [found[child] for child in node.children]
            given = dict.fromkeys(chain.from_iterable(below))
            found.append(
                {
                    result: sets.nodes.node(node.place, tuple([each.get(result, EMPTY) for each in below]))
                    for result in given
                }
            )
            for child in node.children:
                if last[child] == number:
                    # No later node needs it.
                    found[child] = {}
        where = found[self.root]
        return sets, {verdict: sets.of(where[n]) for n, verdict in enumerate(self.verdicts) if n in where}

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs: the fields, without what is computed from them."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def __iter__(self) -> Iterator[tuple[Combination, Verdict]]:
        """Iterate over all combinations with their verdicts: for spaces that are small enough."""
        for combination in self.space.combinations():
            yield combination, self.verdict(dict(zip(self.space.facts, combination, strict=True)))


_AtPoint = tuple[int, tuple[Any, ...]]
"""The place of an axis, and for each of its points what it leads to."""
_Branch = tuple[str, Mapping[str, Any], Fact]
"""A fact, for each of its readings a branch or a result, and how other values of it are read."""


def _walk(first: _Branch | Result) -> Callable[[Mapping[str, str]], Result]:
    """Return the walk from a branch to a result, by the facts that it meets."""

    def result(facts: Mapping[str, str]) -> Result:
        node: Any = first
        while type(node) is tuple:
            name, children, fact = node
            try:
                node = children[facts[name]]
            except KeyError:
                node = children[fact.reading(facts[name])]
        found: Result = node
        return found

    return result


def _branches(
    diagram: DecisionDiagram, nodes: Iterable[InnerNode], results: Iterable[Result]
) -> list[_Branch | Result]:
    """Return what each number of a result or an inner node stands for."""
    found: list[_Branch | Result] = list(results)
    for node in nodes:
        axis = diagram.axes[node.place]
        states = dict(zip((point.values for point in axis.points), node.children, strict=True))
        facts = [diagram.space.question.facts[name] for name in axis.facts]
        found.append(_tests_of_facts(facts, states, found))
    return found


def _tests_of_facts(
    facts: Sequence[Fact], states: Mapping[tuple[str, ...], int], found: Sequence[_Branch | Result]
) -> _Branch | Result:
    """Return tests of one fact after the other that together test an axis; a fact that does not matter is left out."""
    if len(set(states.values())) == 1:
        return found[next(iter(states.values()))]
    fact, *others = facts
    children: dict[str, _Branch | Result] = {}
    for value in dict.fromkeys(state[0] for state in states):
        rest = {state[1:]: number for state, number in states.items() if state[0] == value}
        children[value] = _tests_of_facts(others, rest, found)
    return fact.name, children, fact
