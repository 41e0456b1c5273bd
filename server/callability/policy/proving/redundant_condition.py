"""Redundant parts of conditions: the rules above, or the rest of the condition, already decide."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from operator import and_, or_

from callability.finding import Finding, Severity, Witness, shown
from callability.kernel.condition import All, Any, Condition, Is, Not, atoms
from callability.policy.deciding.combination_set import CombinationSet, CombinationSets, Truths
from callability.policy.proving.decided import Decided
from callability.policy.reading.when import written_part
from callability.policy.rules.rule_set import Rule

MAX_PARTS = 500
"""Parts of one condition that are looked at; a larger one is not."""


@dataclass(frozen=True, slots=True)
class _Weighed:
    """A part with its truths, where its rule is tried, and where the rest of the condition leaves it open; for what is
    certain, and for what is possible.
    """

    part: Is
    truths: Truths
    tried: CombinationSet
    open: Truths

    def changed(self, certain: CombinationSet, possible: CombinationSet) -> CombinationSet:
        """Return where the rule would be another one with other truths of the part."""
        # Where a rule is tried is a large set, and the others are small: it is intersected last.
        of_certain = (self.truths.certain ^ certain) & self.open.certain
        return (of_certain | ((self.truths.possible ^ possible) & self.open.possible)) & self.tried

    def matters(self, where: CombinationSet) -> bool:
        """Say whether the part decides anywhere in a set."""
        return bool(where & (self.open.certain | self.open.possible) & self.tried)


def check_parts(rules: tuple[Rule, ...], decided: Decided) -> Iterator[Finding]:
    """Find parts, and values in lists, without which each answer would be the same, in rules that decide."""
    for rule, weighed in _weighed(rules, decided):
        if not weighed.changed(decided.sets.none, decided.sets.none):
            what = f"part `{_written(weighed.part, decided)}` of"
            yield _never_matters(rule, weighed.part, what, weighed.truths.certain, decided)
        elif len(weighed.part.values) > 1:
            yield from _check_values(rule, weighed, decided)


def _check_values(rule: Rule, weighed: _Weighed, decided: Decided) -> Iterator[Finding]:
    part, fact = weighed.part, decided.sets.space.question.facts[weighed.part.fact]
    needless = fact.needless(part.values)
    for value in sorted(part.values):
        what = f"value {shown(value)} of `{part.fact}` in"
        having = decided.sets.where(part.fact, fact.held_with(value))
        if not weighed.matters(having):
            yield _never_matters(rule, part, what, having, decided)
        elif value in needless:
            sentence = f"{what} rule `{rule.id}` never matters: whatever it matches, others in the list match too"
            yield Finding(part.place or rule.place, "part-never-matters", sentence, "", Severity.WARNING)


def needless_parts(rules: tuple[Rule, ...], decided: Decided) -> Iterator[Finding]:
    """Find parts that are true wherever they matter; to say so may be what makes a rule readable."""
    every, none = decided.sets.all, decided.sets.none
    for rule, weighed in _weighed(rules, decided):
        matters = weighed.changed(none, none)
        if matters and not weighed.changed(every, every):
            sentence = f"part `{_written(weighed.part, decided)}` of rule `{rule.id}` is true wherever it matters"
            hint = "the rule decides the same without it"
            witness = decided.sets.witness(matters)
            place = weighed.part.place or rule.place
            yield Finding(place, "part-always-true", sentence, hint, Severity.NOTE, witness)


def _weighed(rules: tuple[Rule, ...], decided: Decided) -> Iterator[tuple[Rule, _Weighed]]:
    for rule in rules:
        if rule.when and decided.certain(rule.id) and sum(1 for _ in atoms(rule.when)) <= MAX_PARTS:
            every = Truths(decided.sets.all, decided.sets.all)
            for part, left_open in _parts(rule.when, every, decided.sets):
                yield rule, _Weighed(part, decided.sets.truths(part), decided.tried(rule.id), left_open)


def _parts(condition: Condition, matters: Truths, sets: CombinationSets) -> Iterator[tuple[Is, Truths]]:
    """Yield the parts of a condition, each with where the rest of it leaves it open."""
    match condition:
        case Is():
            yield condition, matters
        case Not(part=part):
            # What is certain of the whole is what is not possible of the part.
            yield from _parts(part, Truths(matters.possible, matters.certain), sets)
        case All(parts=parts) | Any(parts=parts):
            each = [sets.truths(part) for part in parts]
            certain, possible = (
                _open(condition, [getattr(truths, kind) for truths in each], sets) for kind in ("certain", "possible")
            )
            for part, one, other in zip(parts, certain, possible, strict=True):
                yield from _parts(part, Truths(matters.certain & one, matters.possible & other), sets)


def _open(condition: All | Any, parts: list[CombinationSet], sets: CombinationSets) -> list[CombinationSet]:
    """Return for each part where the others leave the answer to it: all are true, or none is."""
    join, start = (and_, sets.all) if isinstance(condition, All) else (or_, sets.none)
    before = [*accumulate(parts, join, initial=start)][:-1]
    after = [*accumulate(reversed(parts), join, initial=start)][-2::-1]
    others = [join(one, other) for one, other in zip(before, after, strict=True)]
    return others if join is and_ else [~each for each in others]


def _never_matters(rule: Rule, part: Is, what: str, holds: CombinationSet, decided: Decided) -> Finding:
    witness, there = _elsewhere(rule, holds, decided)
    sentence = f"{what} rule `{rule.id}` never matters: without it each answer is the same"
    place = part.place or rule.place
    return Finding(place, "part-never-matters", sentence, there, Severity.WARNING, witness)


def _elsewhere(rule: Rule, holds: CombinationSet, decided: Decided) -> tuple[Witness | None, str]:
    """Return facts of those for which a part is true, and what decides there."""
    if not holds:
        return None, "no combination of facts has it"
    where = holds - decided.tried(rule.id) or holds
    verdict = decided.diagram.verdict_at(decided.sets.simplest(where))
    return decided.sets.witness(where), f"rule `{verdict.rule}` decides without it"


def _written(part: Is, decided: Decided) -> str:
    return written_part(part, decided.sets.space.question)
