"""Ways to make a condition false: the values that its facts would need."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from itertools import product
from typing import Any as Anything

from callability.kernel.condition import All, Any, Condition, Is, Not
from callability.kernel.glob import holds

MOST = 64
"""Ways that are kept of a part of a condition: those of the least effort."""

Values = Mapping[str, frozenset[str]]
"""The values that each fact can have; none: it is unknown, and makes nothing true or false."""
Falsification = Mapping[str, frozenset[str]]
"""For some facts, values of which any will do; any other fact may stay what it is."""
Effort = Callable[[Falsification], Anything]
"""What says which of two ways is the better one: that of which it returns less."""


def falsifications(condition: Condition, values: Values, effort: Effort) -> list[Falsification]:
    """Return ways to make a condition false, in Kleene's logic, the best first; none: there are no such values."""
    return sorted(_ways(condition, values, effort, wanted=False), key=effort)


def _ways(condition: Condition, values: Values, effort: Effort, *, wanted: bool) -> list[Falsification]:
    """Return ways to give a condition the truth that is wanted."""
    match condition:
        case Is(fact=fact, values=named):
            fitting = frozenset(value for value in values[fact] if holds(named, value) is wanted)
            return [{fact: fitting}] if fitting else []
        case Not(part=part):
            return _ways(part, values, effort, wanted=not wanted)
        case All(parts=parts) | Any(parts=parts):
            each = [_ways(part, values, effort, wanted=wanted) for part in parts]
            if isinstance(condition, All) is not wanted:
                return _best([way for ways in each for way in ways], effort)
            return reduce(lambda one, other: _best(_both(one, other), effort), each)


def _both(one: list[Falsification], other: list[Falsification]) -> list[Falsification]:
    """Return ways that are one of each list at once."""
    joined = ({fact: _common(fact, left, right) for fact in {**left, **right}} for left, right in product(one, other))
    return [way for way in joined if all(way.values())]


def _common(fact: str, one: Falsification, other: Falsification) -> frozenset[str]:
    if fact in one and fact in other:
        return one[fact] & other[fact]
    return one[fact] if fact in one else other[fact]


def _best(ways: list[Falsification], effort: Effort) -> list[Falsification]:
    different = {frozenset(way.items()): way for way in ways}.values()
    return list(different) if len(different) <= MOST else sorted(different, key=effort)[:MOST]
