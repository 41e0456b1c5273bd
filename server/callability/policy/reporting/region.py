"""Describing a set of combinations by a few conditions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from math import prod

from callability.policy.deciding.space import Combination

Box = tuple[frozenset[str], ...]
"""For each fact the values that it may have: every combination of them."""


class Region:
    """A set of combinations, kept as boxes that do not overlap."""

    def __init__(self, boxes: Iterable[Box] = ()) -> None:
        self.boxes = tuple(boxes)

    @classmethod
    def of(cls, combinations: Iterable[Combination]) -> Region:
        """Return the region of some combinations, each of which counts once."""
        boxes = [tuple(frozenset((value,)) for value in each) for each in dict.fromkeys(combinations)]
        facts = len(boxes[0]) if boxes else 0
        # Which fact is joined first makes a difference: the fewest boxes are taken.
        orders = [(*range(first, facts), *range(first)) for first in range(facts)] or [()]
        return min((cls(reduce(_joined, order, boxes)) for order in orders), key=lambda region: len(region.boxes))

    def __len__(self) -> int:
        """How many combinations it has."""
        return sum(map(_size, self.boxes))

    def __add__(self, other: Region) -> Region:
        """Return the region of both, which have no combination in common."""
        return Region((*self.boxes, *other.boxes))

    def inside(self, box: Box) -> int:
        """Return how many of its combinations are in a box."""
        return sum(_size(_common(box, each)) for each in self.boxes)


def described(wanted: Region, allowed: Region, possible: Region, domains: Sequence[Sequence[str]]) -> tuple[Box, ...]:
    """Return boxes that together hold all of `wanted`, and of what is `possible` nothing that is not `allowed`.

    Each restricts as few facts as it can, to as few values, and none is superfluous. `domains` are the values of each
    fact, and `wanted` is part of `allowed`.
    """
    found: list[Box] = []
    for box in sorted(wanted.boxes, key=_size, reverse=True):
        if not any(_covers(large, box) for large in found):
            found.append(_widened(box, wanted, allowed, possible, domains))
    return tuple(_needed(found, wanted))


def _widened(box: Box, wanted: Region, allowed: Region, possible: Region, domains: Sequence[Sequence[str]]) -> Box:
    """Widen a box as far as nothing comes into it that is not allowed.

    First by whole facts, the last first: conditions are read from the left. Then by single values, where something
    wanted comes in.
    """
    for number in reversed(range(len(domains))):
        wider = _with(box, number, domains[number])
        if allowed.inside(wider) == possible.inside(wider):
            box = wider
    for number, domain in enumerate(domains):
        for value in domain:
            wider = _with(box, number, (value,))
            gained = wider != box and wanted.inside(wider) > wanted.inside(box)
            if gained and allowed.inside(wider) == possible.inside(wider):
                box = wider
    return box


def _with(box: Box, number: int, values: Iterable[str]) -> Box:
    return (*box[:number], box[number] | frozenset(values), *box[number + 1 :])


def _needed(boxes: Sequence[Box], wanted: Region) -> Iterator[Box]:
    """Yield the boxes without which something wanted would be in none."""
    kept = list(boxes)
    for box in reversed(boxes):
        others = [other for other in kept if other is not box]
        if all(_is_covered(each, others) for each in wanted.boxes):
            kept = others
    yield from kept


def _is_covered(box: Box, covers: Sequence[Box]) -> bool:
    """Say whether every combination of a box is in one of some others."""
    left = [box]
    for cover in covers:
        left = [part for each in left for part in _without(each, cover)]
    return not left


def _without(box: Box, cover: Box) -> Iterator[Box]:
    """Yield what of a box is not in another, in parts that do not overlap."""
    common = _common(box, cover)
    if not _size(common):
        yield box
        return
    for number, (values, shared) in enumerate(zip(box, common, strict=True)):
        if rest := values - shared:
            yield (*common[:number], rest, *box[number + 1 :])


def _joined(boxes: Iterable[Box], number: int) -> list[Box]:
    """Join boxes that differ in one fact only."""
    together: dict[tuple[frozenset[str], ...], frozenset[str]] = {}
    for box in boxes:
        rest = (*box[:number], *box[number + 1 :])
        together[rest] = together.get(rest, frozenset()) | box[number]
    return [(*rest[:number], values, *rest[number:]) for rest, values in together.items()]


def _covers(large: Box, small: Box) -> bool:
    return all(inner <= outer for inner, outer in zip(small, large, strict=True))


def _common(one: Box, other: Box) -> Box:
    return tuple(left & right for left, right in zip(one, other, strict=True))


def _size(box: Box) -> int:
    return prod(map(len, box))
