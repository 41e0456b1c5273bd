"""Decision diagrams from flat arrays, as nested tuples that a walk goes through."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from callability.bundle.v1 import bundle_pb2 as pb
from callability.kernel.refusal import invalid

Result = TypeVar("Result")
Points = Sequence[int]
"""For each axis, in the order in which they are tested, the number of its point."""


def nodes_of(diagram: pb.Diagram, results: Sequence[Any], points: Sequence[int]) -> list[Any]:
    """Return what each number stands for: a result, or the place of an axis and what each of its points leads to.

    `points` is how many points each axis has. It raises unless every number is in its range.

    Raises:
        BundleRefused: an array has a wrong length, or a number is out of range.
    """
    found: list[Any] = list(results)
    children = tuple(diagram.children)
    places = tuple(diagram.places)
    start = 0
    count = len(results)
    for number, place in enumerate(places):
        if place >= len(points):
            raise invalid("a node of a diagram tests an axis that does not exist")
        mine = children[start : start + points[place]]
        start += points[place]
        if len(mine) != points[place]:
            raise invalid("a diagram has too few children")
        for child in dict.fromkeys(mine):
            if child >= count + number:
                raise invalid("a node of a diagram has a child that does not come before it")
            if child >= count and places[child - count] <= place:
                raise invalid("a diagram tests an axis out of order")
        found.append((place, tuple([found[child] for child in mine])))
    if start != len(children):
        raise invalid("a diagram has too many children")
    return found


def walk(first: Any) -> Callable[[Points], Any]:
    """Return what goes from a node to the result at some points."""

    def result(points: Points) -> Any:
        node = first
        while type(node) is tuple:
            place, children = node
            node = children[points[place]]
        return node

    return result
