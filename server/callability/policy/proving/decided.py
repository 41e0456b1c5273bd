"""The combinations in which each rule of a rule set decides, from its decision table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from callability.policy.deciding.table import DecisionTable
from callability.policy.proving.mask import Mask, Masks, mask_of
from callability.policy.rules.rule_set import RuleSet
from callability.policy.rules.verdict import Verdict

Name = TypeVar("Name", str, Verdict)


class Decided:
    """The masks of a decision table: for rules by their ids, for statuses by their names."""

    def __init__(self, rule_set: RuleSet, table: DecisionTable) -> None:
        # Equal verdicts of a table are one object, nearly always: to compare them would take longer than to decide.
        numbers: dict[int, list[int]] = {}
        verdicts: dict[int, Verdict] = {}
        for number, (_, verdict) in enumerate(table):
            if id(verdict) not in verdicts:
                verdicts[id(verdict)], numbers[id(verdict)] = verdict, []
            numbers[id(verdict)].append(number)
        self.masks = Masks(table.space)
        self.verdicts: Mapping[Verdict, Mask] = _joined(
            (verdict, mask_of(numbers[key], table.space.size)) for key, verdict in verdicts.items()
        )
        each = self.verdicts.items()
        self._certain = _joined((verdict.rule, mask) for verdict, mask in each if not verdict.undetermined)
        self._undetermined = _joined((verdict.rule, mask) for verdict, mask in each if verdict.undetermined)
        self._statuses = _joined((verdict.status, mask) for verdict, mask in each)
        self._tried = dict(self._tries(rule_set))

    def certain(self, rule: str) -> Mask:
        """Return where a rule is reached and true."""
        return self._certain.get(rule, 0)

    def undetermined(self, rule: str) -> Mask:
        """Return where a rule is reached and undetermined."""
        return self._undetermined.get(rule, 0)

    def reached(self, rule: str) -> Mask:
        """Return where a rule is reached: it is true or undetermined, and every rule above it is false."""
        return self.certain(rule) | self.undetermined(rule)

    def tried(self, rule: str) -> Mask:
        """Return where every rule above a rule is false, whatever it is itself."""
        return self._tried[rule]

    def status(self, status: str) -> Mask:
        """Return where a status is given."""
        return self._statuses.get(status, 0)

    def at(self, one: Mask) -> Verdict:
        """Return the verdict of one combination."""
        return next(verdict for verdict, mask in self.verdicts.items() if mask & one)

    def _tries(self, rule_set: RuleSet) -> Iterator[tuple[str, Mask]]:
        left = self.masks.all
        for rule in rule_set.rules:
            yield rule.id, left
            left &= ~self.reached(rule.id)


def _joined(pairs: Iterable[tuple[Name, Mask]]) -> dict[Name, Mask]:
    joined: dict[Name, Mask] = {}
    for name, mask in pairs:
        joined[name] = joined.get(name, 0) | mask
    return joined
