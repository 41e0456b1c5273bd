"""Test coverage: each rule decides once, and each part of a condition is once true and once false."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from callability.finding import Place, Witness
from callability.kernel.condition import Is, atoms
from callability.kernel.semantics import decide
from callability.policy.deciding.combination_set import CombinationSet
from callability.policy.proving.decided import Decided
from callability.policy.reading.when import written_part
from callability.policy.rules.rule_set import Rule, RuleSet


@dataclass(frozen=True, slots=True)
class Goal:
    """Something to be reached by a test: that a rule decides or, of a part of its condition, that it is true, or false.

    A part counts where its rule is tried. The witness is a set of facts by which a test would reach the goal.
    """

    rule: str
    part: str | None
    truth: bool
    place: Place
    witness: Witness

    def __str__(self) -> str:
        if self.part is None:
            return f"rule `{self.rule}` decides"
        return f"`{self.part}` is {'true' if self.truth else 'false'} in rule `{self.rule}`"


@dataclass(frozen=True, slots=True)
class Share:
    """How many goals of a kind there are, and those that no test reaches."""

    goals: int
    missed: tuple[Goal, ...]

    @property
    def percent(self) -> float:
        """The share that is reached; all of nothing is 100."""
        return 100.0 * (self.goals - len(self.missed)) / self.goals if self.goals else 100.0


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the tests of a rule set reach of its rules, and of the parts of their conditions."""

    rules: Share
    conditions: Share

    @property
    def percent(self) -> float:
        """The lesser of both shares."""
        return min(self.rules.percent, self.conditions.percent)


_Key = tuple[int, int | None, bool]
"""A rule and a part of its condition by their numbers, and a truth."""


def coverage(rule_set: RuleSet, decided: Decided, tested: Iterable[Mapping[str, str]]) -> Coverage:
    """Return what tests with these facts reach. What no combination of facts can reach is no goal."""
    reached = {key for facts in tested for key in _reached(rule_set, facts)}
    return Coverage(*(_share(goals(rule_set, decided), reached, decided) for goals in (_rules, _parts)))


def rule_coverage(rule_set: RuleSet, decided: Decided, tested: Iterable[Mapping[str, str]]) -> Share:
    """Return which rules decide in tests with these facts, of those that decide at all."""
    return _share(_rules(rule_set, decided), {key for facts in tested for key in _reached(rule_set, facts)}, decided)


_Place = tuple[Rule, Is | None, CombinationSet]
"""A rule and a part of it that is meant, if one is, with where the goal is reached."""


def _share(goals: Iterable[tuple[_Key, _Place]], reached: set[_Key], decided: Decided) -> Share:
    each = dict(goals)
    missed = (_goal(key, place, decided) for key, place in each.items() if key not in reached)
    return Share(len(each), tuple(missed))


def _reached(rule_set: RuleSet, facts: Mapping[str, str]) -> Iterator[_Key]:
    decision = decide(rule_set.rules, facts)
    for number, rule in enumerate(rule_set.rules[: decision.rule + 1]):
        for part, atom in enumerate(atoms(rule.when)):
            truth = atom.truth(facts)
            if truth is not None:
                yield number, part, truth
    if not decision.undetermined:
        yield decision.rule, None, True


def _rules(rule_set: RuleSet, decided: Decided) -> Iterator[tuple[_Key, _Place]]:
    """Yield for each rule that it decides."""
    for number, rule in enumerate(rule_set.rules):
        if where := decided.certain(rule.id):
            yield (number, None, True), (rule, None, where)


def _parts(rule_set: RuleSet, decided: Decided) -> Iterator[tuple[_Key, _Place]]:
    """Yield for each part of a condition that it is true, and that it is false."""
    for number, rule in enumerate(rule_set.rules):
        tried = decided.tried(rule.id)
        for part, atom in enumerate(atoms(rule.when)):
            truths = decided.sets.truths(atom)
            for truth, where in ((True, tried & truths.certain), (False, tried - truths.possible)):
                if where:
                    yield (number, part, truth), (rule, atom, where)


def _goal(key: _Key, reached_by: _Place, decided: Decided) -> Goal:
    rule, atom, where = reached_by
    part = written_part(atom, decided.sets.space.question) if atom else None
    place = atom.place if atom and atom.place else rule.place
    return Goal(rule.id, part, key[2], place, decided.sets.witness(where))
