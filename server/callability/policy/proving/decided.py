"""Where each rule of a rule set decides, read off its decision diagram."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TypeVar

from callability.policy.deciding.combination_set import CombinationSet
from callability.policy.deciding.diagram import DecisionDiagram
from callability.policy.rules.rule_set import RuleSet
from callability.policy.rules.verdict import Verdict

Name = TypeVar("Name", bound=object)


class Decided:
    """The sets of combinations of a decision diagram: for rules by their ids, for statuses by their names."""

    def __init__(self, rule_set: RuleSet, diagram: DecisionDiagram) -> None:
        self.diagram = diagram
        self.sets, verdicts = diagram.sets()
        self.verdicts: Mapping[Verdict, CombinationSet] = verdicts
        each = self.verdicts.items()
        self._certain = _joined((verdict.rule, where) for verdict, where in each if not verdict.undetermined)
        self._undetermined = _joined((verdict.rule, where) for verdict, where in each if verdict.undetermined)
        self._statuses = _joined((verdict.status, where) for verdict, where in each)
        self._rule_set = rule_set

    def certain(self, rule: str) -> CombinationSet:
        """Return where a rule is reached and true."""
        return self._certain.get(rule, self.sets.none)

    def undetermined(self, rule: str) -> CombinationSet:
        """Return where a rule is reached and undetermined."""
        return self._undetermined.get(rule, self.sets.none)

    def reached(self, rule: str) -> CombinationSet:
        """Return where a rule is reached: it is true or undetermined, and every rule above it is false."""
        return self.certain(rule) | self.undetermined(rule)

    def tried(self, rule: str) -> CombinationSet:
        """Return where every rule above a rule is false, whatever it is itself."""
        return self._tries[rule]

    def status(self, status: str) -> CombinationSet:
        """Return where a status is given."""
        return self._statuses.get(status, self.sets.none)

    @cached_property
    def _tries(self) -> Mapping[str, CombinationSet]:
        left = self.sets.all
        found: dict[str, CombinationSet] = {}
        for rule in self._rule_set.rules:
            found[rule.id] = left
            left -= self.reached(rule.id)
        return found


def _joined(pairs: Iterable[tuple[Name, CombinationSet]]) -> dict[Name, CombinationSet]:
    joined: dict[Name, CombinationSet] = {}
    for name, where in pairs:
        joined[name] = joined[name] | where if name in joined else where
    return joined
