"""The truths of a condition under all completions of its unknown facts, as the bits of one number."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations
from math import prod

from callability.policy.rules.condition import All, Any, Condition, Facts, Is, Not

State = Mapping[str, str]
"""Known values of the unknown facts of one axis."""


class Completions:
    """Every combination of the states of some axes. The bits of a number are their truths.

    A bit's place is a number with a digit for each axis: its state. So an operation on two conditions takes a few
    microseconds for the 250,000 combinations that a rule set may have.
    """

    def __init__(self, axes: Collection[Sequence[State]], known: Facts) -> None:
        # The axis with the most states has the shortest runs of equal bits: of those with long runs there are few.
        self._axes = sorted(axes, key=len, reverse=True)
        self._known = known
        self._axis_of = {fact: axis for axis, states in enumerate(self._axes) for fact in states[0]}
        self._strides = [prod(map(len, self._axes[:axis])) for axis in range(len(self._axes))]
        self._size = prod(map(len, self._axes))
        self._all = (1 << self._size) - 1
        self._truths_of: dict[Is, int] = {}

    def differences(self, condition: Condition) -> set[frozenset[str]]:
        """Return sets of facts: of each the values can be changed, and only they, so that the truth changes.

        They are sets of facts of one axis, so that the smallest are among them.
        """
        truths = self._truths(condition)
        return {facts for axis in range(len(self._axes)) for facts in self._differences_along(axis, truths)}

    def _differences_along(self, axis: int, truths: int) -> Iterator[frozenset[str]]:
        states, stride = self._axes[axis], self._strides[axis]
        if len(states[0]) == 1:
            if ((truths >> stride) ^ truths) & self._bits(axis, range(len(states) - 1)):
                yield frozenset(states[0])
            return
        bits = [self._bits(axis, (place,)) for place in range(len(states))]
        for (place, one), (later, other) in combinations(enumerate(states), 2):
            if ((truths >> stride * (later - place)) ^ truths) & bits[place]:
                yield frozenset(name for name in one if one[name] != other[name])

    def _truths(self, condition: Condition) -> int:
        match condition:
            case Is(fact=fact):
                if fact in self._known:
                    return self._all if condition.truth(self._known) else 0
                if condition not in self._truths_of:
                    axis = self._axis_of[fact]
                    true = [place for place, state in enumerate(self._axes[axis]) if condition.truth(state)]
                    self._truths_of[condition] = self._bits(axis, true)
                return self._truths_of[condition]
            case Not(part=part):
                return self._all ^ self._truths(part)
            case All(parts=parts):
                truths = self._all
                for part in parts:
                    truths &= self._truths(part)
                return truths
            case Any(parts=parts):
                truths = 0
                for part in parts:
                    truths |= self._truths(part)
                return truths

    def _bits(self, axis: int, places: Collection[int]) -> int:
        """Return the bits of the completions in which an axis is in one of some states."""
        stride, count = self._strides[axis], len(self._axes[axis])
        # The first digit of a number is its highest bit.
        run = "".join("01"[place in places] * stride for place in reversed(range(count)))
        return int(run * (self._size // len(run)), 2)
