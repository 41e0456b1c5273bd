"""Whether a later try can succeed, by looking at every combination that the unknown facts can turn out to have."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, product
from math import prod

from callability.kernel.explainable import Rule
from callability.kernel.semantics import decide
from callability.vocabulary import UNKNOWN

States = Sequence[tuple[Sequence[str], Sequence[tuple[str, ...]]]]
"""For each axis the names of its facts, and the states that these can have together."""


def opens_later(rules: Sequence[Rule], axes: States, facts: Mapping[str, str], stays_unknown: Collection[str]) -> bool:
    """Return whether the tool is callable at some combination in which only facts that stay unknown are unknown."""
    names = tuple(chain.from_iterable(names for names, _ in axes))
    for states in product(*_choices(axes, facts, stays_unknown)):
        decision = decide(rules, {**facts, **dict(zip(names, chain.from_iterable(states), strict=True))})
        if not decision.undetermined and rules[decision.rule].status == "callable":
            return True
    return False


def combinations(axes: States, facts: Mapping[str, str], stays_unknown: Collection[str]) -> int:
    """Return how many combinations there are to look at."""
    return prod(map(len, _choices(axes, facts, stays_unknown)))


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
