"""How a verdict came about: each rule that was tried, and why it did or did not decide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from callability.finding import listed
from callability.policy.rules.condition import Truth
from callability.policy.rules.rule_set import Rule, RuleSet
from callability.policy.telling.path import Path, path_to_callable
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


def explain(rule_set: RuleSet, facts: Mapping[str, str]) -> Explanation:
    """Explain the verdict of a combination of facts."""
    trials: list[Trial] = []
    for rule in rule_set.rules:
        truth = rule.when.truth(facts) if rule.when else True
        reads = tuple((fact, facts[fact]) for fact in rule.reads)
        trials.append(Trial(rule, truth, reads, _why(rule, truth, reads, rule_set)))
        if truth is not False:
            break
    return Explanation(tuple(trials), path_to_callable(rule_set, facts))


def _why(rule: Rule, truth: Truth, reads: tuple[tuple[str, str], ...], rule_set: RuleSet) -> str:
    if rule.when is None:
        return f"has no condition: gives `{rule.status}`"
    facts = rule_set.question.facts
    told = " and ".join(f"`{fact}` is {facts[fact].shown(value)}" for fact, value in reads)
    if truth is None:
        unknown = listed(fact for fact, value in reads if value == UNKNOWN)
        return f"cannot be decided without {unknown}, which is unknown: gives `{rule_set.question.undetermined}`"
    return f"holds, since {told}: gives `{rule.status}`" if truth else f"does not hold, since {told}"
