"""The effect of each rule: where it decides, and where its position in the order matters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from callability.finding import Finding, Witness
from callability.policy.proving.decided import Decided
from callability.policy.proving.mask import Mask, Masks
from callability.policy.proving.redundant_condition import needless_parts
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
    found = (_overlap(rule_set, upper, lower, decided) for upper, lower in sorted(pairs))
    return tuple(overlap for overlap in found if overlap)


def notes(rule_set: RuleSet, decided: Decided) -> tuple[Finding, ...]:
    """Return what may be as the author wants it, and may be not."""
    return tuple(needless_parts(rule_set.rules, decided))


def _effect(rule: Rule, decided: Decided) -> Effect:
    certain = decided.certain(rule.id)
    where: list[Where] = []
    left = certain
    for box in _boxes(certain, decided.masks):
        if len(where) == MAX_CONDITIONS:
            break
        where.append(decided.masks.space.question.describe(box))
        left &= ~_mask_of(box, decided.masks)
    witness = decided.masks.witness(certain) if certain else None
    undetermined = decided.undetermined(rule.id).bit_count()
    return Effect(rule, certain.bit_count(), undetermined, tuple(where), not left, witness)


_Box = dict[str, tuple[str, ...]]


def _boxes(wanted: Mask, masks: Masks) -> Iterator[_Box]:
    """Yield conditions that together hold in all of a mask, and nowhere else."""
    left = wanted
    while left:
        box = _widened({fact: (value,) for fact, value in _facts(left, masks).items()}, wanted, left, masks)
        yield box
        left &= ~_mask_of(box, masks)


def _facts(left: Mask, masks: Masks) -> dict[str, str]:
    facts = masks.facts(masks.simplest(left))
    return {fact: facts[fact] for fact in masks.space.facts}


def _widened(box: _Box, wanted: Mask, left: Mask, masks: Masks) -> _Box:
    """Widen a box as far as nothing else comes in: by whole facts, the last first, and then by single values with which
    something comes in that is left.
    """
    facts = masks.space.question.facts
    for fact in reversed(masks.space.facts):
        wider = box | {fact: facts[fact].readings}
        if not _mask_of(wider, masks) & ~wanted:
            box = wider
    for fact in masks.space.facts:
        for value in facts[fact].readings:
            wider = box | {fact: (*box[fact], value)}
            gained = _mask_of(wider, masks) & ~_mask_of(box, masks)
            if gained & left and not gained & ~wanted:
                box = wider
    return box


def _mask_of(box: _Box, masks: Masks) -> Mask:
    mask = masks.all
    for fact, values in box.items():
        mask &= masks.where(fact, values)
    return mask


def _overlap(rule_set: RuleSet, upper: int, lower: int, decided: Decided) -> Overlap | None:
    rules = rule_set.rules
    between = rules[upper : lower + 1]
    both = decided.masks.truths(between[-1].when).possible & decided.reached(between[0].id)
    if not both:
        return None
    exchanged = (between[-1], *between[1:-1], between[0])
    tried = decided.tried(between[0].id)
    before, after = (_answers(order, tried, decided.masks) for order in (between, exchanged))
    changed = 0
    for answer, mask in before.items():
        changed |= mask & ~after.get(answer, 0)
    if not changed:
        return None
    return Overlap(between[0], between[-1], changed.bit_count(), decided.masks.witness(changed & both or changed))


def _answers(order: tuple[Rule, ...], left: Mask, masks: Masks) -> dict[object, Mask]:
    """Return where each answer is given if rules are tried in an order: the status and a rule's own words, None where
    it is undetermined.
    """
    answers: dict[object, Mask] = {}
    for rule in order:
        truths = masks.truths(rule.when)
        determined = (rule.status, rule.because and rule.because.template, rule.action and rule.action.template)
        for answer, where in ((determined, truths.certain), (None, truths.possible & ~truths.certain)):
            answers[answer] = answers.get(answer, 0) | (left & where)
        left &= ~truths.possible
    answers["left"] = left
    return answers
