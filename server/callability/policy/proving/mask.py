"""Sets of combinations as one integer with a bit for each, so that all are compared at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from operator import and_, or_

from callability.finding import Witness
from callability.policy.deciding.space import Space
from callability.policy.questions.fact import Axis
from callability.policy.rules.condition import All, Any, Condition, Is, Not
from callability.vocabulary import UNKNOWN

Mask = int
"""A set of combinations: the combination with index n is in the set if bit n is set."""


@dataclass(frozen=True, slots=True)
class Truths:
    """Where a condition is certainly true, and where it may be: true or undetermined."""

    certain: Mask
    possible: Mask


class Masks:
    """The masks of one space."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.all: Mask = (1 << space.size) - 1
        self.axes: tuple[tuple[Axis, int], ...] = tuple(_with_strides(space.axes))
        self._values: dict[tuple[str, str], Mask] = {}
        for axis, stride in self.axes:
            for number, point in enumerate(axis.points):
                mask = self.point(axis, stride, number)
                for fact_and_value in zip(axis.facts, point.values, strict=True):
                    self._values[fact_and_value] = self._values.get(fact_and_value, 0) | mask

    def point(self, axis: Axis, stride: int, number: int) -> Mask:
        """Return where an axis, whose points follow each other at a stride, is at its point of a number."""
        period = stride * len(axis.points)
        return (((1 << stride) - 1) << (number * stride)) * (self.all // ((1 << period) - 1))

    def spread(self, mask: Mask, along: tuple[Axis, int]) -> Mask:
        """Return a mask with every combination that differs from one of it along an axis alone."""
        axis, stride = along
        numbers = range(len(axis.points))
        first = reduce(or_, ((mask & self.point(axis, stride, number)) >> (number * stride) for number in numbers))
        return reduce(or_, (first << (number * stride) for number in numbers))

    def where(self, fact: str, values: Iterable[str]) -> Mask:
        """Return where a fact has one of the values; a fact that no rule and no law reads is at its default."""
        if fact not in self.space.facts:
            return self.all if self.space.question.facts[fact].open_value in set(values) else 0
        return reduce(or_, (self._values.get((fact, value), 0) for value in values), 0)

    def truths(self, condition: Condition | None) -> Truths:
        """Return where a condition holds, in Kleene's logic; none holds everywhere."""
        match condition:
            case None:
                return Truths(self.all, self.all)
            case Is(fact=fact):
                certain = self.where(fact, self.space.question.facts[fact].held_by(condition.values))
                return Truths(certain, certain | self.where(fact, (UNKNOWN,)))
            case Not(part=part):
                opposite = self.truths(part)
                return Truths(self.all & ~opposite.possible, self.all & ~opposite.certain)
            case All(parts=parts) | Any(parts=parts):
                join = and_ if isinstance(condition, All) else or_
                each = [self.truths(part) for part in parts]
                return Truths(reduce(join, (one.certain for one in each)), reduce(join, (one.possible for one in each)))

    def simplest(self, mask: Mask) -> Mask:
        """Return one combination of a mask that is not empty: one in which facts are open, or else known, where they
        can be, the first facts first.
        """
        for fact in self.space.facts:
            definition = self.space.question.facts[fact]
            for values in ((definition.open_value,), definition.values):
                if mask & self.where(fact, values):
                    mask &= self.where(fact, values)
                    break
        return mask & -mask

    def facts(self, one: Mask) -> dict[str, str]:
        """Return every fact in the first combination of a mask that is not empty."""
        number = (one & -one).bit_length() - 1
        values = chain.from_iterable(
            axis.points[number // stride % len(axis.points)].values for axis, stride in self.axes
        )
        return self.space.named(tuple(values))

    def witness(self, mask: Mask) -> Witness:
        """Return the simplest combination of a mask that is not empty, without the facts at their default."""
        return self.space.witness(self.facts(self.simplest(mask)))


def mask_of(numbers: Iterable[int], size: int) -> Mask:
    """Return the mask of the combinations of some numbers, in a space of a size."""
    octets = bytearray(size // 8 + 1)
    for number in numbers:
        octets[number >> 3] |= 1 << (number & 7)
    return int.from_bytes(octets, "little")


def _with_strides(axes: tuple[Axis, ...]) -> Iterator[tuple[Axis, int]]:
    """Yield each axis with how far apart its points are: the last axis varies first."""
    stride = 1
    strides = []
    for axis in reversed(axes):
        strides.append((axis, stride))
        stride *= len(axis.points)
    yield from reversed(strides)
