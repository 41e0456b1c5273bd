"""The combinations of facts by which a decision diagram is confirmed: of every region, edge and point."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from random import Random

from callability.policy.deciding.diagram import DecisionDiagram
from callability.policy.deciding.space import Combination

MAX_WITNESSES = 20_000
"""Combinations that are decided for one rule set, besides one for each point of an axis."""
MAX_EFFORT = 400_000
"""What these may take together, in the unit of an `Evaluator`."""
A_REGION = 3
"""Combinations that are decided for each region if they take little."""
LITTLE_EFFORT = 30_000
"""What is little."""
SEED = 20_260_101
"""What the choice among the combinations of a region starts from, so that a policy is always tested by the same."""

_Points = tuple[int, ...]
"""A combination by the point of each axis, in the order in which axes are tested."""
_Path = Mapping[int, tuple[int, ...]]
"""For the axes that a path tests, by their places, the points that take it."""


@dataclass(frozen=True, slots=True)
class Witnesses:
    """Combinations of facts, each once, and how many of the regions they are in, of how many."""

    combinations: tuple[Combination, ...]
    regions: int
    of_regions: int


def witnesses(diagram: DecisionDiagram, effort: int = 1) -> Witnesses:
    """Choose the witnesses of a diagram, each of which takes an effort: always the same for the same diagram.

    There are as many as `MAX_WITNESSES` and `MAX_EFFORT` allow. With at most so many regions, there is at least one of
    each region, and so one of each edge, and up to `A_REGION` as long as that takes little. With more regions, each
    edge comes first, the nearest to the root before others, and the rest is drawn. Every point of every axis is in one
    of them. Axes that a region leaves free are at drawn points.
    """
    most = min(MAX_WITNESSES, max(1, MAX_EFFORT // effort))
    walks = _Walks(diagram)
    found: dict[_Points, None] = {}
    if diagram.regions <= most:
        times = min(A_REGION, max(1, min(most, LITTLE_EFFORT // effort) // diagram.regions))
        for path in _regions(diagram, diagram.root, {}):
            found.update((walks.drawn(path), None) for _ in range(times))
    else:
        for path in walks.to_new_edges():
            if len(found) == most:
                break
            found[walks.drawn(path)] = None
        for _ in range(most - len(found)):
            found[walks.drawn({})] = None
    for path in _missing_points(diagram, found):
        found[walks.drawn(path)] = None
    combinations = tuple(dict.fromkeys(_combination(diagram, points) for points in found))
    return Witnesses(combinations, len(walks.regions), diagram.regions)


class _Walks:
    """Draws combinations of a diagram, and counts the regions that they are in."""

    def __init__(self, diagram: DecisionDiagram) -> None:
        self._diagram = diagram
        self._chance = Random(SEED)
        self._results = len(diagram.verdicts)
        self._branches = [diagram.branches(node) for node in diagram.inner]
        self._new = [set(branches) for branches in self._branches]
        self.regions: set[tuple[int, ...]] = set()

    def drawn(self, path: _Path) -> _Points:
        """Draw a combination that takes a path; where it is free, by an edge that no other has taken, if there is one.

        Otherwise each of the different children is as likely.
        """
        taken, chance = dict(path), self._chance
        number, region = self._diagram.root, []
        while number >= self._results:
            node, branches = self._diagram.inner[number - self._results], self._branches[number - self._results]
            new = self._new[number - self._results]
            if node.place not in taken:
                taken[node.place] = chance.choice([branches[child] for child in branches if not new or child in new])
            point = chance.choice(taken[node.place])
            taken[node.place] = (point,)
            number = node.children[point]
            new.discard(number)
            region.append(number)
        self.regions.add(tuple(region))
        return tuple(
            taken[place][0] if taken.get(place) else chance.randrange(len(axis.points))
            for place, axis in enumerate(self._diagram.axes)
        )

    def to_new_edges(self) -> Iterator[_Path]:
        """Yield paths to inner nodes that have an edge which no combination takes, those nearest to the root first."""
        above: dict[int, int] = {}
        waiting = [self._diagram.root]
        for number in waiting:
            while self._new[number - self._results]:
                yield self._path_to(number, above)
            for child in self._branches[number - self._results]:
                if child >= self._results and child not in above:
                    above[child] = number
                    waiting.append(child)

    def _path_to(self, number: int, above: Mapping[int, int]) -> _Path:
        path: dict[int, tuple[int, ...]] = {}
        while number in above:
            upper = above[number] - self._results
            path[self._diagram.inner[upper].place] = self._branches[upper][number]
            number = above[number]
        return path


def _regions(diagram: DecisionDiagram, number: int, path: _Path) -> Iterator[_Path]:
    """Yield the regions below a node, as the paths to them."""
    node = diagram.node(number)
    if node is None:
        yield path
        return
    for child, points in diagram.branches(node).items():
        yield from _regions(diagram, child, {**path, node.place: points})


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
