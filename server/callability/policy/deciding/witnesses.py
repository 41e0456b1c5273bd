"""The combinations of facts by which a decision diagram is confirmed: of every region, edge and point."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from random import Random

from callability.policy.deciding.diagram import DecisionDiagram
from callability.policy.deciding.space import Combination

MAX_WITNESSES = 20_000
"""Combinations that are decided for one rule set, besides one for each point of an axis."""
A_REGION = 3
"""Combinations that are decided for each region, where that is not too many."""
SEED = 20_260_101
"""What the choice among the combinations of a region starts from, so that a policy is always tested by the same."""

_Points = tuple[int, ...]
"""A combination by the point of each axis, in the order in which axes are tested."""


@dataclass(frozen=True, slots=True)
class Witnesses:
    """Combinations of facts, each once, and how many of the regions they are in, of how many."""

    combinations: tuple[Combination, ...]
    regions: int
    of_regions: int


def witnesses(diagram: DecisionDiagram) -> Witnesses:
    """Choose the witnesses of a diagram: always the same for the same diagram.

    With at most `MAX_WITNESSES` regions, there are up to `A_REGION` of each region, and so at least one of each edge.
    Beyond that, each edge comes first, as far as that is possible, and the rest is drawn. Every point of every axis is
    in one of them. Axes that a region leaves free are at drawn points.
    """
    chance = Random(SEED)
    found: dict[_Points, None] = {}
    if diagram.regions <= MAX_WITNESSES:
        times = min(A_REGION, max(1, MAX_WITNESSES // diagram.regions))
        for path in _paths(diagram, diagram.root, {}):
            found.update((_drawn(diagram, path, chance), None) for _ in range(times))
        regions = diagram.regions
    else:
        for path in islice(_edges(diagram), MAX_WITNESSES):
            found[_drawn_below(diagram, path, chance)] = None
        for _ in range(MAX_WITNESSES - len(found)):
            found[_drawn_below(diagram, {}, chance)] = None
        regions = len({_region(diagram, points) for points in found})
    for points in _missing_points(diagram, found):
        found[_drawn_below(diagram, points, chance)] = None
    return Witnesses(tuple(dict.fromkeys(_combination(diagram, points) for points in found)), regions, diagram.regions)


_Path = dict[int, tuple[int, ...]]
"""For the axes that a path tests, by their places, the points that take it."""


def _paths(diagram: DecisionDiagram, number: int, path: _Path) -> Iterator[_Path]:
    """Yield the regions below a node, as the paths to them."""
    node = diagram.node(number)
    if node is None:
        yield path
        return
    for child, points in diagram.branches(node).items():
        yield from _paths(diagram, child, {**path, node.place: points})


def _edges(diagram: DecisionDiagram) -> Iterator[_Path]:
    """Yield for each edge a path that ends with it, those nearest to the root first."""
    paths: dict[int, _Path] = {diagram.root: {}}
    waiting = [diagram.root]
    for number in waiting:
        node = diagram.node(number)
        if node is None:
            continue
        for child, points in diagram.branches(node).items():
            path = {**paths[number], node.place: points}
            yield path
            if child not in paths:
                paths[child] = path
                waiting.append(child)


def _drawn(diagram: DecisionDiagram, path: _Path, chance: Random) -> _Points:
    """Draw a combination of a region."""
    return tuple(
        chance.choice(path[place]) if place in path else chance.randrange(len(axis.points))
        for place, axis in enumerate(diagram.axes)
    )


def _drawn_below(diagram: DecisionDiagram, path: _Path, chance: Random) -> _Points:
    """Draw a combination that takes a path, and at each node after it each of the different children as likely."""
    taken = dict(path)
    number = diagram.root
    while node := diagram.node(number):
        if node.place not in taken:
            taken[node.place] = chance.choice(list(diagram.branches(node).values()))
        point = chance.choice(taken[node.place])
        taken[node.place] = (point,)
        number = node.children[point]
    return _drawn(diagram, taken, chance)


def _region(diagram: DecisionDiagram, points: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Return the region of a combination: the inner nodes on its path, and their children."""
    found: list[tuple[int, int]] = []
    number = diagram.root
    while node := diagram.node(number):
        child = node.children[points[node.place]]
        found.append((number, child))
        number = child
    return tuple(found)


def _missing_points(diagram: DecisionDiagram, found: Iterable[_Points]) -> Iterator[_Path]:
    """Yield the points of axes that none of some combinations has."""
    seen = [set(points) for points in zip(*found, strict=True)]
    for place, axis in enumerate(diagram.axes):
        missing: Iterator[_Path] = ({place: (p,)} for p in range(len(axis.points)) if p not in seen[place])
        yield from missing


def _combination(diagram: DecisionDiagram, points: _Points) -> Combination:
    """Return the readings of the facts of a combination, in the order of the space."""
    by_axis = dict(zip(diagram.order, points, strict=True))
    return tuple(
        value for number, axis in enumerate(diagram.space.axes) for value in axis.points[by_axis[number]].values
    )
