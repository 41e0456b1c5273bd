"""A decision diagram as tables: from the node that a row has reached, and the codes of some facts, to the next node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from callability.bundle.v1 import bundle_pb2 as pb
from callability.columns.fact_column import Codes, number_of_codes
from callability.columns.states import points, sources

MAX_ENTRIES = 1 << 16
"""Entries of one table, unless a single axis needs more: what fits into a core's cache is looked up fastest."""


@dataclass(frozen=True, slots=True)
class Step:
    """A table that tests some axes at once.

    `facts` are the facts whose codes it reads, each with the number of its codes. The entry of a state and of codes is
    at the state's place, with the codes as further digits.
    """

    facts: tuple[tuple[int, int], ...]
    width: int
    table: NDArray[np.int32]

    def follow(self, states: NDArray[np.int32] | None, codes: Mapping[int, Codes | int]) -> NDArray[np.int32]:
        """Return the next state of each row; without states, every row is at the first."""
        places = np.zeros((), np.intp) if states is None else states.astype(np.intp)
        for fact, number in self.facts:
            places = np.add(places * number, codes[fact], dtype=np.intp)
        found: NDArray[np.int32] = np.take(self.table, places, mode="clip")
        return found


@dataclass(frozen=True, slots=True)
class Walk:
    """Steps from where rows start to results. `starts` has the state of each possible start."""

    starts: NDArray[np.int32]
    steps: tuple[Step, ...]
    results: NDArray[np.intp]

    def follow(self, start: NDArray[np.intp] | None, codes: Mapping[int, Codes | int]) -> NDArray[np.intp]:
        """Return the result of each row, from the numbers of its starts; without them, from the first."""
        states = None if start is None else self.starts[start]
        for step in self.steps:
            states = step.follow(states, codes)
        found: NDArray[np.intp] = np.take(
            self.results, np.zeros((), np.intp) if states is None else states, mode="clip"
        )
        return found


def walk_of(
    diagram: pb.Diagram, axes: Sequence[pb.Axis], facts: Sequence[pb.Fact], starts: Sequence[int], results: int
) -> Walk:
    """Return the walk through a diagram from some of its numbers; a number below `results` is one."""
    nodes = _Nodes(diagram, axes, facts, results)
    current = np.array(sorted(set(starts)), np.int64)
    first = np.searchsorted(current, np.array(starts, np.int64)).astype(np.int32)
    steps: list[Step] = []
    place = 0
    while place < len(axes):
        end = place + 1
        if not (nodes.tested[current] == place).any():
            # No node that a row can have reached tests this axis.
            place = end
            continue
        while end < len(axes) and len(current) * nodes.width(place, end + 1) <= MAX_ENTRIES:
            end += 1
        following = nodes.after(current, place, end)
        current, table = np.unique(following, return_inverse=True)
        read = nodes.sources(place, end)
        steps.append(Step(read, nodes.width(place, end), table.reshape(-1).astype(np.int32)))
        place = end
    return Walk(first, tuple(steps), current.astype(np.intp))


class _Nodes:
    """The nodes of a diagram, and what their axes read."""

    def __init__(self, diagram: pb.Diagram, axes: Sequence[pb.Axis], facts: Sequence[pb.Fact], results: int) -> None:
        self._facts = facts
        self._axes = axes
        self._points = [points(axis, facts) for axis in axes]
        self._sources = [sources(axis, facts) for axis in axes]
        sizes = np.array([len(axis.readings) // len(axis.facts) for axis in axes], np.int64)
        places = np.array(diagram.places, np.int64)
        # A result tests no axis.
        self.tested = np.concatenate((np.full(results, len(axes), np.int64), places))
        lengths = sizes[places]
        self._offsets = np.concatenate((np.zeros(results, np.int64), np.cumsum(lengths) - lengths))
        self._children = np.array(diagram.children, np.int64)

    def sources(self, place: int, end: int) -> tuple[tuple[int, int], ...]:
        """Return the facts that some axes read, each with the number of its codes."""
        read = dict.fromkeys(each for sources in self._sources[place:end] for each in sources)
        return tuple((fact, number_of_codes(self._facts[fact])) for fact in read)

    def width(self, place: int, end: int) -> int:
        """Return how many combinations of codes some axes have."""
        return int(np.prod([number for _, number in self.sources(place, end)], dtype=object))

    def after(self, current: NDArray[np.int64], place: int, end: int) -> NDArray[np.int64]:
        """Return where each of some nodes leads by some axes: an array with an axis for the codes of each source."""
        read = [fact for fact, _ in self.sources(place, end)]
        nodes = current.reshape(-1, *[1] * len(read))
        for axis in range(place, end):
            found = self._points[axis]
            # The codes of the axis's own sources, at their places among those of all.
            order = sorted(range(found.ndim), key=lambda number: read.index(self._sources[axis][number]))
            shape = [1] * len(read)
            for number in order:
                shape[read.index(self._sources[axis][number])] = found.shape[number]
            point = found.transpose(order).reshape(1, *shape).astype(np.int64)
            tests = self.tested[nodes] == axis
            at = np.where(tests, self._offsets[nodes] + point, 0)
            nodes = np.where(tests, self._children[at] if len(self._children) else nodes, nodes)
        return np.broadcast_to(nodes, (len(current), *(number for _, number in self.sources(place, end)))).reshape(-1)
