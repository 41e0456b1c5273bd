"""The decision table for people: few rows, tried in order, that read like the rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from callability.policy.deciding.diagram import DecisionDiagram
from callability.policy.proving.decided import Decided
from callability.policy.reporting.box import Box, boxes, combinations_in, needed
from callability.policy.rules.rule_set import RuleSet


@dataclass(frozen=True, slots=True)
class Row:
    """Where the facts have these values, and no row above holds, this is the answer.

    A fact that is not named may have any value. `combinations` is how many this row decides: those in which no row
    above holds, so that the rows of a table add up to its space. `box` has the readings of each fact of the space.
    """

    facts: Mapping[str, tuple[str, ...]]
    status: str
    rule: str
    undetermined: bool
    combinations: int
    box: Box

    def holds(self, facts: Mapping[str, str]) -> bool:
        """Say whether the facts of a combination, as the rules read them, have these values."""
        return all(facts[fact] in readings for fact, readings in self.box.items())


def rows_of(rule_set: RuleSet, diagram: DecisionDiagram) -> tuple[Row, ...]:
    """Return the rows of a decision table: for each rule where it holds, then where it cannot be read.

    Raises:
        TooManyNodes: the table is too large.
    """
    return tuple(_rows(rule_set, Decided(rule_set, diagram)))


def _rows(rule_set: RuleSet, decided: Decided) -> Iterator[Row]:
    sets, question = decided.sets, decided.sets.space.question
    above = sets.none
    for rule in rule_set.rules:
        for undetermined in (False, True):
            wanted = decided.undetermined(rule.id) if undetermined else decided.certain(rule.id)
            allowed = above | wanted
            status = question.undetermined if undetermined else rule.status
            for box in needed(tuple(boxes(wanted, allowed, sets)), wanted, sets):
                mine = combinations_in(box, sets) - above
                above |= mine
                yield Row(question.describe(box), status, rule.id, undetermined, mine.size, box)
