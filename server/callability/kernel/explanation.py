"""Explaining a verdict: each rule that was tried, and why it did or did not decide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from callability.finding import listed
from callability.kernel.condition import Condition, Truth, facts_read
from callability.kernel.explainable import Diagram, Rule, RuleSet
from callability.kernel.path import Path, path_to_callable
from callability.vocabulary import UNKNOWN


@dataclass(frozen=True, slots=True)
class Trial:
    """One rule that was tried: the truth of its condition, the facts that it reads, and a sentence."""

    rule: Rule
    truth: Truth
    reads: tuple[tuple[str, str], ...]
    why: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """The rules that were tried, in order, the last of which decided; and the path to callable, if there can be one."""

    trials: tuple[Trial, ...]
    path: Path | None


def explain(rule_set: RuleSet, diagram: Diagram, facts: Mapping[str, str]) -> Explanation:
    """Explain the verdict that the diagram of a rule set has for a combination of facts."""
    trials: list[Trial] = []
    for rule in rule_set.rules:
        truth = rule.when.truth(facts) if rule.when else True
        reads = tuple((fact, facts[fact]) for fact in rule.reads)
        trials.append(Trial(rule, truth, reads, _why(rule, truth, facts, rule_set, diagram)))
        if truth is not False:
            break
    return Explanation(tuple(trials), path_to_callable(rule_set, diagram, facts))


def _why(rule: Rule, truth: Truth, given: Mapping[str, str], rule_set: RuleSet, diagram: Diagram) -> str:
    if rule.when is None:
        return f"has no condition: gives `{rule.status}`"
    facts = rule_set.question.facts
    if truth is None:
        unread = diagram.unread_at(given)
        are = "which is" if len(unread) == 1 else "which are"
        return f"cannot be decided without {listed(unread)}, {are} unknown: gives `{rule_set.question.undetermined}`"
    reasons = " and ".join(f"`{fact}` is {facts[fact].shown(given[fact])}" for fact in _reasons(rule.when, given))
    return f"holds, since {reasons}: gives `{rule.status}`" if truth else f"does not hold, since {reasons}"


def _reasons(condition: Condition, given: Mapping[str, str]) -> tuple[str, ...]:
    """Return facts that a condition reads and that alone make it true or false, whatever the others are.

    None of them can be spared. Where the first facts of the text are enough, it is these.
    """
    truth = condition.truth(given)
    known = dict(given)
    for fact in reversed(facts_read(condition)):
        value, known[fact] = known[fact], UNKNOWN
        if condition.truth(known) is not truth:
            known[fact] = value
    return tuple(fact for fact in facts_read(condition) if known[fact] != UNKNOWN)
