"""The path to callable: what would have to change, and who can change it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain, combinations

from callability.policy.questions.fact import Fact
from callability.policy.rules.rule_set import Rule, RuleSet
from callability.policy.rules.semantics import decide
from callability.vocabulary import UNKNOWN


class PathEnd(StrEnum):
    """What a path leads to."""

    CALLABLE = "callable"
    POLICY_CHANGE = "policy_change"
    FIND_OUT = "find_out"


@dataclass(frozen=True, slots=True)
class Change:
    """A fact to change, from its value to its open value."""

    fact: Fact
    value: str


@dataclass(frozen=True, slots=True)
class Step:
    """The changes that keep one rule from deciding."""

    rule: Rule
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Path:
    """The steps in order, what they lead to, and the facts to find out first."""

    steps: tuple[Step, ...]
    end: PathEnd
    find_out: tuple[str, ...] = ()


def path_to_callable(rule_set: RuleSet, facts: Mapping[str, str]) -> Path | None:
    """Open, for the rule that decides, the smallest set of facts that makes it false, until the status is the open one.

    None where the question has no status that everything else could be opened to.
    """
    if rule_set.question.open_status is None:
        return None
    now = dict(facts)
    steps: list[Step] = []
    while True:
        decision = decide(rule_set.rules, now)
        rule = rule_set.rules[decision.rule]
        if decision.undetermined:
            unknown = tuple(fact for fact in rule.reads if now[fact] == UNKNOWN)
            return Path(tuple(steps), PathEnd.FIND_OUT, unknown)
        if rule.status == rule_set.question.open_status:
            return Path(tuple(steps), PathEnd.CALLABLE)
        changes = _smallest(rule, rule_set, now)
        if not changes:
            unknown = _in_the_way(rule, rule_set, now)
            return Path(tuple(steps), PathEnd.FIND_OUT if unknown else PathEnd.POLICY_CHANGE, unknown)
        steps.append(Step(rule, changes))
        now |= {change.fact.name: change.fact.open_value for change in changes}


def _in_the_way(rule: Rule, rule_set: RuleSet, facts: Mapping[str, str]) -> tuple[str, ...]:
    """Return the unknown facts that would have to be open, with every known one, for the rule to be false."""
    changeable = [fact for fact in rule_set.question.facts.values() if fact.name in rule.reads and fact.opened_by]
    opened = {**facts, **{fact.name: fact.open_value for fact in changeable}}
    if rule.when is None or rule.when.truth(opened) is not False:
        return ()
    return tuple(fact.name for fact in changeable if facts[fact.name] == UNKNOWN)


def _smallest(rule: Rule, rule_set: RuleSet, facts: Mapping[str, str]) -> tuple[Change, ...]:
    if rule.when is None:
        return ()
    changeable = [
        Change(fact, facts[fact.name])
        for fact in rule_set.question.facts.values()
        if fact.name in rule.reads and fact.opened_by is not None and facts[fact.name] not in {fact.open_value, UNKNOWN}
    ]
    sets = chain.from_iterable(combinations(changeable, size) for size in range(1, len(changeable) + 1))
    for changes in sets:
        if rule.when.truth({**facts, **{change.fact.name: change.fact.open_value for change in changes}}) is False:
            return changes
    return ()


def sentences(path: Path) -> tuple[str, ...]:
    """Return a path in words: who changes what, in order, and what it leads to."""
    told = tuple(_sentence(change) for step in path.steps for change in step.changes)
    match path.end:
        case PathEnd.CALLABLE:
            return (*told, "then it is callable" if told else "it is callable now")
        case PathEnd.POLICY_CHANGE:
            return (*told, "only a change of the policy lifts this")
        case PathEnd.FIND_OUT:
            return (*told, f"find out {' and '.join(f'`{fact}`' for fact in path.find_out)} first")


def _sentence(change: Change) -> str:
    fact = change.fact
    by = (
        f"the {fact.opened_by}, by `{fact.action}`"
        if fact.action
        else "the caller, whose own gate refuses it: see its logs"
    )
    return f"`{fact.name}` from {change.value} to {fact.open_value}: {by}"
