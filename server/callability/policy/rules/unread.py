"""The unknown facts that keep a condition undetermined, and whether a later try can read them."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from callability.policy.questions.fact import Axis
from callability.policy.questions.question import Question
from callability.policy.rules.completions import Completions, State
from callability.policy.rules.condition import Condition, Facts, atoms, facts_read
from callability.policy.rules.rule_set import RuleSet
from callability.policy.rules.verdict import Verdict
from callability.vocabulary import UNKNOWN, Retry

MAX_COMPLETIONS = 1_000_000
"""Completions that are evaluated; a policy may have a quarter of that as combinations of facts."""


def unread(question: Question, condition: Condition | None, facts: Facts) -> tuple[str, ...]:
    """Return the unknown facts that keep a condition from being decided, in the order of the facts.

    A *completion* gives every unknown fact a known value, so that the facts of each axis are at one of its points. Take
    two completions under which the condition has different truths, and the facts that it reads in which they differ. A
    fact is unread if it belongs to such a set of facts that contains no smaller one. Facts that vary by themselves make
    sets of one: such a fact is unread if another value of it alone can change the truth.

    Kleene's logic does not see that `any: [{a: true}, {a: false}]` holds whatever `a` is. For such a condition every
    unknown fact that it reads is returned, so that the result is empty only if the condition is decided. The same holds
    for a condition with more than `MAX_COMPLETIONS`, which no rule set of a policy can have.
    """
    if condition is None or condition.truth(facts) is not None:
        return ()
    known = {fact: facts[fact] for fact in facts_read(condition) if facts[fact] != UNKNOWN}
    unknown = frozenset(facts_read(condition)) - known.keys()
    axes = [_states(axis, unknown, facts) for axis in question.axes if unknown & set(axis.facts)]
    if not all(axes):
        # The known facts contradict each other.
        return _in_order(question, unknown)
    distinguished = [_distinguished(states, condition) for states in axes]
    if prod(map(len, distinguished)) > MAX_COMPLETIONS:
        return _in_order(question, unknown)
    differences = Completions(distinguished, known).differences(condition)
    smallest = (one for one in differences if not any(other < one for other in differences))
    return _in_order(question, frozenset().union(*smallest) or unknown)


def _in_order(question: Question, facts: frozenset[str]) -> tuple[str, ...]:
    return tuple(name for name in question.facts if name in facts)


def unread_of(rule_set: RuleSet, verdict: Verdict, facts: Facts) -> tuple[str, ...]:
    """Return the unknown facts that keep the rule that a verdict names from being decided; none if it is determined."""
    if not verdict.undetermined:
        return ()
    return unread(rule_set.question, rule_set.rule(verdict.rule).when, facts)


def retry_of(question: Question, status: str, facts: Iterable[str]) -> Retry:
    """Return whether trying again can help with a status and its unread facts: not if one of these stays unknown."""
    if any(question.facts[name].stays_unknown for name in facts):
        return Retry.NEVER
    return question.status(status).retry


def _states(axis: Axis, unknown: frozenset[str], facts: Facts) -> list[State]:
    """Return what the unknown facts of an axis that are read may be together, given those that are known."""
    found: dict[tuple[tuple[str, str], ...], None] = {}
    for point in axis.points:
        values = dict(zip(axis.facts, point.values, strict=True))
        known = (facts.get(name, UNKNOWN) in {UNKNOWN, value} for name, value in values.items())
        if UNKNOWN not in point.values and all(known):
            found[tuple((name, value) for name, value in values.items() if name in unknown)] = None
    return [dict(state) for state in found]


def _distinguished(states: list[State], condition: Condition) -> list[State]:
    """Return one state for all that are the same to a condition, if they differ in one fact alone."""
    if len(states[0]) > 1:
        return states
    [fact] = states[0]
    read = [atom for atom in atoms(condition) if atom.fact == fact]
    return list({tuple(atom.truth(state) for atom in read): state for state in states}.values())
