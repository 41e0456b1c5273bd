"""Whether a later try can succeed, by looking at every combination that the unknown facts can turn out to have."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, product
from math import prod

from callability.compiler.rule_set import RuleSet
from callability.contract.vocabulary import UNKNOWN
from callability.kernel.conditions import decide
from callability.kernel.facts import Readings
from callability.kernel.rule_set import RuleSet as CompiledRuleSet
from callability.v1.verdict_pb2 import RETRY_LATER, RETRY_NEVER, ToolVerdict

_MOST = 3_000
"""Combinations that are looked at for an answer."""
States = Sequence[tuple[Sequence[str], Sequence[tuple[str, ...]]]]
"""For each axis the names of its facts, and the states that these can have together."""


def opens_later(rule_set: RuleSet, axes: States, facts: Mapping[str, str], stays_unknown: Collection[str]) -> bool:
    """Return whether the tool is callable at some combination in which only facts that stay unknown are unknown."""
    names = tuple(chain.from_iterable(names for names, _ in axes))
    for states in product(*_choices(axes, facts, stays_unknown)):
        decision = decide(rule_set.conditions, {**facts, **dict(zip(names, chain.from_iterable(states), strict=True))})
        if not decision.undetermined and rule_set.rules[decision.rule].status == "callable":
            return True
    return False


class LaterTries:
    """Says whether a later try may succeed, if there are few combinations to look at, and keeps what it says."""

    def __init__(self, written: RuleSet, rule_set: CompiledRuleSet) -> None:
        self._written = written
        self._rule_set = rule_set
        self._axes = [
            (rule_set.facts_of_axis(number), [state for _, state in rule_set.points_of_axis(number)])
            for number in range(len(rule_set.axes))
        ]
        self._known: dict[tuple[object, ...], bool | None] = {}

    def fits(self, verdict: ToolVerdict, readings: Readings) -> bool:
        """Say whether the retry of a verdict for some facts is right, if it is undetermined and that can be said."""
        if not verdict.undetermined:
            return True
        if readings.key not in self._known:
            self._known[readings.key] = self._later(readings)
        later = self._known[readings.key]
        return later is None or verdict.retry == (RETRY_LATER if later else RETRY_NEVER)

    def _later(self, readings: Readings) -> bool | None:
        facts = {name: self._rule_set.reading(name, value) for name, value in readings.values.items()}
        stays = readings.stays_unknown
        if prod(map(len, _choices(self._axes, facts, stays))) > _MOST:
            return None
        return opens_later(self._written, self._axes, facts, stays)


def _choices(
    axes: States, facts: Mapping[str, str], stays_unknown: Collection[str]
) -> Iterator[Sequence[tuple[str, ...]]]:
    for names, states in axes:
        now = [facts[name] for name in names]
        readable = [value == UNKNOWN and name not in stays_unknown for name, value in zip(names, now, strict=True)]
        yield [
            state
            for state in dict.fromkeys(states)
            if all(new != UNKNOWN if may else new == old for old, new, may in zip(now, state, readable, strict=True))
        ]
