"""The fewest changes that open a status, found by the decision diagram, which covers every combination of facts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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


def fewest_changes(
    rule_set: RuleSet, diagram: Diagram, facts: Mapping[str, str], *, reading: bool = False
) -> dict[str, str] | None:
    """Return the fewest changes that open the status, those of the first facts first; None if no changes do.

    With `reading`, an unknown fact counts as one that may turn out to have any of its values.

    Raises:
        TooManyLooks: there may be such changes or not.
    """
    opening = {rule.id for rule in rule_set.rules if rule.status == rule_set.question.open_status}
    best: _Reached | None = None
    waiting: dict[int, dict[int, _Reached]] = {}
    moves = _Moves(rule_set, diagram, facts, reading=reading)

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


def _all_changes(reached: _Reached) -> dict[str, str]:
    found: dict[str, str] = {}
    before: _Reached | None = reached
    while before:
        found |= before[3]
        before = before[2]
    return found


class _Moves:
    """Which points of an axis can be reached by changes, and at what cost."""

    def __init__(self, rule_set: RuleSet, diagram: Diagram, facts: Mapping[str, str], *, reading: bool) -> None:
        self._facts = facts
        self._diagram = diagram
        self._by_name = rule_set.question.facts
        self._reading = reading
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
            return self._reading and old == UNKNOWN
        return fact.opened_by is not None and (fact.opened_by_any_value or new == fact.open_value)
