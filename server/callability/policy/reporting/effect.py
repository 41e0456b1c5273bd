"""The effect of each rule: where it decides, and where its position in the order matters."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

from callability.finding import Finding, Witness
from callability.policy.deciding.combination_set import CombinationSet, CombinationSets
from callability.policy.deciding.nodes import TooManyNodes
from callability.policy.proving.decided import Decided
from callability.policy.proving.redundant_condition import needless_parts
from callability.policy.reporting.box import boxes, combinations_in
from callability.policy.rules.rule_set import Rule, RuleSet

MAX_CONDITIONS = 50
"""Conditions that describe where one rule decides."""
MAX_APART = 20
"""The distance up to which the order of two rules is checked."""

Where = Mapping[str, tuple[str, ...]]
"""The values that some facts have; every other fact may have any value."""


@dataclass(frozen=True, slots=True)
class Effect:
    """Where a rule decides: it is true, and every rule above it is false.

    `where` are conditions that together say so, by themselves, whatever the order of the rules; `whole` unless there
    are too many. In `undetermined` more combinations it is reached and cannot be read.
    """

    rule: Rule
    combinations: int
    undetermined: int
    where: tuple[Where, ...]
    whole: bool
    witness: Witness | None


@dataclass(frozen=True, slots=True)
class Overlap:
    """Two rules of which the order decides: with their places exchanged, so many answers are other ones."""

    upper: Rule
    lower: Rule
    answers: int
    witness: Witness


def effects(rule_set: RuleSet, decided: Decided) -> tuple[Effect, ...]:
    """Return the effect of each rule, in their order."""
    return tuple(_effect(rule, decided) for rule in rule_set.rules)


def overlaps(rule_set: RuleSet, decided: Decided) -> tuple[Overlap, ...]:
    """Return the pairs of rules, not far apart, that cannot be exchanged without an answer changing.

    The last rule is in none: above another it would leave nothing to it.
    """
    rules = rule_set.rules[:-1]
    pairs = ((upper, lower) for lower in range(len(rules)) for upper in range(max(0, lower - MAX_APART), lower))
    found: list[Overlap] = []
    # As far as the sets of one policy may grow.
    with suppress(TooManyNodes):
        for upper, lower in sorted(pairs):
            if overlap := _overlap(rule_set, upper, lower, decided):
                found.append(overlap)
    return tuple(found)


def notes(rule_set: RuleSet, decided: Decided) -> tuple[Finding, ...]:
    """Return what may be as the author wants it, and may be not."""
    found: list[Finding] = []
    with suppress(TooManyNodes):
        found.extend(needless_parts(rule_set.rules, decided))
    return tuple(found)


def _effect(rule: Rule, decided: Decided) -> Effect:
    certain = decided.certain(rule.id)
    where: list[Where] = []
    left = certain
    witness = decided.sets.witness(certain) if certain else None
    with suppress(TooManyNodes):
        for box in islice(boxes(certain, certain, decided.sets), MAX_CONDITIONS):
            where.append(decided.sets.space.question.describe(box))
            left -= combinations_in(box, decided.sets)
    undetermined = decided.undetermined(rule.id).size
    return Effect(rule, certain.size, undetermined, tuple(where), not left, witness)


def _overlap(rule_set: RuleSet, upper: int, lower: int, decided: Decided) -> Overlap | None:
    rules = rule_set.rules
    between = rules[upper : lower + 1]
    both = decided.sets.truths(between[-1].when).possible & decided.reached(between[0].id)
    if not both:
        return None
    exchanged = (between[-1], *between[1:-1], between[0])
    # Elsewhere both are false, wherever they are.
    either = decided.sets.truths(between[0].when).possible | decided.sets.truths(between[-1].when).possible
    tried = decided.tried(between[0].id) & either
    before, after = (_answers(order, tried, decided.sets) for order in (between, exchanged))
    changed = decided.sets.none
    for answer, where in before.items():
        changed |= where - after.get(answer, decided.sets.none)
    if not changed:
        return None
    return Overlap(between[0], between[-1], changed.size, decided.sets.witness(changed & both or changed))


def _answers(order: tuple[Rule, ...], left: CombinationSet, sets: CombinationSets) -> dict[object, CombinationSet]:
    """Return where each answer is given if rules are tried in an order: the status and a rule's own words, None where
    it is undetermined.
    """
    answers: dict[object, CombinationSet] = {}
    for rule in order:
        truths = sets.truths(rule.when)
        determined = (rule.status, rule.because and rule.because.template, rule.action and rule.action.template)
        for answer, where in ((determined, truths.certain), (None, truths.possible - truths.certain)):
            answers[answer] = answers.get(answer, sets.none) | (left & where)
        left -= truths.possible
    answers["left"] = left
    return answers
