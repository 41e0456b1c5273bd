"""Whether a status can open, and by which changes: found by the diagram, which covers every combination of facts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from callability.kernel.explainable import Diagram, Fact, RuleSet
from callability.vocabulary import UNKNOWN

MOST_LOOKS = 50_000
"""Children of nodes that are looked at, at most: some tens of milliseconds. Every implementation counts them alike."""

_Move = tuple[int, int, Mapping[str, str]]
"""What the changes to a point cost, the number of the point, and the changes."""
_Reached = tuple[int, Any, "_Reached | None", Mapping[str, str]]
"""What the changes so far cost, a node or a verdict, from where it was reached, and by which changes."""


class TooManyLooks(Exception):
    """The diagram is too large to say whether changes open the status."""


def opens_by_itself(
    rule_set: RuleSet, diagram: Diagram, facts: Mapping[str, str], stays_unknown: Collection[str]
) -> bool:
    """Return whether the status can open without a change of a known fact, once unknown facts become known.

    Facts that stay unknown do not; the others may have any values that can occur with what is known.
    """
    readable = _unknown(facts).difference(stays_unknown)
    return bool(readable) and _can_open(rule_set, diagram, _Moves(rule_set, diagram, facts, readable, changes=False))


def opens_by_findings(rule_set: RuleSet, diagram: Diagram, facts: Mapping[str, str]) -> bool:
    """Return whether the status can open by some values of the unknown facts, and by changes of facts."""
    return _can_open(rule_set, diagram, _Moves(rule_set, diagram, facts, _unknown(facts)))


def _can_open(rule_set: RuleSet, diagram: Diagram, moves: _Moves) -> bool:
    opening = _opening(rule_set)
    onwards: dict[int, tuple[int, ...]] = {}
    seen: set[int] = set()
    waiting = [diagram.first]
    while waiting:
        node = waiting.pop()
        if type(node) is not tuple:
            if not node.undetermined and node.rule in opening:
                return True
        elif id(node) not in seen:
            seen.add(id(node))
            place, children = node
            if place not in onwards:
                onwards[place] = tuple(point for _, point, _ in moves.of_axis(place))
            waiting += [children[point] for point in onwards[place]]
    return False


def fewest_changes(
    rule_set: RuleSet, diagram: Diagram, facts: Mapping[str, str], *, reading: bool = False
) -> dict[str, str] | None:
    """Return the fewest changes that open the status, those of the first facts first; None if no changes do.

    With `reading`, an unknown fact counts as one that may turn out to have any of its values.

    Raises:
        TooManyLooks: there may be such changes or not.
    """
    opening = _opening(rule_set)
    best: _Reached | None = None
    waiting: dict[int, dict[int, _Reached]] = {}
    moves = _Moves(rule_set, diagram, facts, _unknown(facts) if reading else ())

    def arrive(reached: _Reached) -> None:
        nonlocal best
        cost, node, _, _ = reached
        if type(node) is tuple:
            known = waiting.setdefault(node[0], {})
            if id(node) not in known or cost < known[id(node)][0]:
                known[id(node)] = reached
        elif not node.undetermined and node.rule in opening and (best is None or cost < best[0]):
            best = reached

    arrive((0, diagram.first, None, {}))
    looks = 0
    while waiting:
        # A node is reached from axes before its own alone, so that its cost is final.
        place = min(waiting)
        nodes, onwards = waiting.pop(place), tuple(moves.of_axis(place))
        looks += len(nodes) * len(onwards)
        if looks > MOST_LOOKS:
            raise TooManyLooks
        for reached in nodes.values():
            for cost, point, changes in onwards:
                arrive((reached[0] + cost, reached[1][1][point], reached, changes))
    return _all_changes(best) if best else None


def _unknown(facts: Mapping[str, str]) -> frozenset[str]:
    return frozenset(name for name, value in facts.items() if value == UNKNOWN)


def _opening(rule_set: RuleSet) -> frozenset[str]:
    return frozenset(rule.id for rule in rule_set.rules if rule.status == rule_set.question.open_status)


def _all_changes(reached: _Reached) -> dict[str, str]:
    found: dict[str, str] = {}
    before: _Reached | None = reached
    while before:
        found |= before[3]
        before = before[2]
    return found


class _Moves:
    """Which points of an axis can be reached, and at what cost.

    A fact in `readable` is unknown, and may turn out to have any value. With `changes`, people may change known facts.
    """

    def __init__(
        self,
        rule_set: RuleSet,
        diagram: Diagram,
        facts: Mapping[str, str],
        readable: Collection[str],
        *,
        changes: bool = True,
    ) -> None:
        self._facts = facts
        self._diagram = diagram
        self._by_name = rule_set.question.facts
        self._readable = readable
        self._changes = changes
        many = len(self._by_name)
        # As sums, fewer changes are less, and so are of as many those of the first facts.
        self._costs = {name: (1 << many) - (1 << (many - 1 - place)) for place, name in enumerate(self._by_name)}

    def of_axis(self, place: int) -> Iterator[_Move]:
        """Yield each state that can be reached, at its first point."""
        seen: set[tuple[str, ...]] = set()
        names = self._diagram.facts_of_axis(place)
        now = [self._diagram.reading(name, self._facts[name]) for name in names]
        for point, state in self._diagram.points_of_axis(place):
            pairs = list(zip(names, now, state, strict=True))
            if state not in seen and all(self._can_be(self._by_name[name], old, new) for name, old, new in pairs):
                seen.add(state)
                changes = {name: new for name, old, new in pairs if new != old}
                yield sum(self._costs[name] for name in changes), point, changes

    def _can_be(self, fact: Fact, old: str, new: str) -> bool:
        if new == old:
            return True
        if UNKNOWN in {old, new}:
            return old == UNKNOWN and fact.name in self._readable
        return self._changes and fact.opened_by is not None and (fact.opened_by_any_value or new == fact.open_value)
