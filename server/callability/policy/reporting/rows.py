"""The decision table for people: few rows, tried in order, that read like the rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from callability.policy.deciding.space import Combination
from callability.policy.deciding.table import DecisionTable
from callability.policy.reporting.region import Box, Region, described
from callability.policy.rules.rule_set import RuleSet


@dataclass(frozen=True, slots=True)
class Row:
    """Where the facts have these values, and no row above holds, this is the answer.

    A fact that is not named may have any value. `combinations` is how many the rule decides so, in all its rows, and
    `box` has the readings of each fact of the space.
    """

    facts: Mapping[str, tuple[str, ...]]
    status: str
    rule: str
    undetermined: bool
    combinations: int
    box: Box

    def holds(self, combination: Combination) -> bool:
        """Say whether the facts of a combination have these values."""
        return all(reading in readings for reading, readings in zip(combination, self.box, strict=True))


def rows_of(rule_set: RuleSet, table: DecisionTable) -> tuple[Row, ...]:
    """Return the rows of a decision table: for each rule where it holds, then where it cannot be read."""
    return tuple(_rows(rule_set, table))


def _rows(rule_set: RuleSet, table: DecisionTable) -> Iterator[Row]:
    space = table.space
    domains = {fact: tuple(map(str, space.question.facts[fact].readings)) for fact in space.facts}
    decided: dict[tuple[str, bool], list[Combination]] = {}
    for combination, verdict in table:
        decided.setdefault((verdict.rule, verdict.undetermined), []).append(combination)
    possible = Region.of(space.combinations())
    counts = table.decided
    above = Region()
    for rule in rule_set.rules:
        for undetermined in (False, True):
            wanted = Region.of(decided.get((rule.id, undetermined), ()))
            above += wanted
            status = space.question.undetermined if undetermined else rule.status
            for box in described(wanted, above, possible, tuple(domains.values())):
                facts = space.question.describe(dict(zip(space.facts, box, strict=True)))
                yield Row(facts, status, rule.id, undetermined, counts[rule.id, undetermined], box)
