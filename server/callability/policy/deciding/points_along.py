"""Which points of one axis lead into a set, within a box of the other axes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import inf

from callability.policy.deciding.nodes import EMPTY, FULL, Node, Nodes, Points, TooManyNodes

_FEW = 8
"""Points of an axis up to which it costs less to visit each child than to look for those that differ."""


class PointsAlong:
    """Searches the sets of one store of nodes.

    A look is a node that is visited. More than `looks` of them raise `TooManyNodes`, on every machine at the
    same place.
    """

    def __init__(self, nodes: Nodes, looks: float = inf) -> None:
        self._nodes = nodes
        self._looks = looks
        self._every = tuple(frozenset(range(size)) for size in nodes.points)
        self._bits: dict[Node, Mapping[Node, int]] = {}

    def find(self, node: Node, axis: int, within: Sequence[Points], *, every: bool) -> frozenset[int]:
        """Return the points of an axis at which a set has some combination of a box of the other axes, or every one.

        Raises:
            TooManyNodes: it needs too many looks.
        """
        axis_of, sizes = self._nodes.axis, self._nodes.points
        bits = (1 << sizes[axis]) - 1
        done: dict[Node, int] = {EMPTY: 0, FULL: bits}
        last = max(
            (axis, *(place for place, each in enumerate(within) if each is not None and len(each) < sizes[place]))
        )

        def found(node: Node) -> int:
            known = done.get(node)
            if known is not None:
                return known
            tested = axis_of(node)
            if tested > last:
                # The box has every point of the axes that are left, and a node holds some of them, and not all.
                return 0 if every else bits
            if tested == axis:
                result = sum([bit for child, bit in self._bits_of(node).items() if found(child)])
            else:
                inside = self._inside(node, within[tested])
                # These two decide by themselves, whatever the other children are.
                if (EMPTY if every else FULL) in inside:
                    result = 0 if every else bits
                else:
                    result = bits if every else 0
                    for child in inside:
                        if child > FULL:
                            result = result & found(child) if every else result | found(child)
            done[node] = result
            self._looks -= 1
            if self._looks < 0:
                raise TooManyNodes
            return result

        return self._points_of(axis, found(node))

    def _points_of(self, axis: int, bits: int) -> frozenset[int]:
        """Return the points of an axis that are given as bits."""
        if bits & (bits - 1) == 0:
            return frozenset((bits.bit_length() - 1,)) if bits else frozenset()
        every = self._every[axis]
        return every if bits.bit_count() == len(every) else frozenset([point for point in every if bits >> point & 1])

    def _inside(self, node: Node, points: Points) -> Collection[Node]:
        """Return the children of a node at some points of its axis."""
        children = self._nodes.children(node)
        if points is None or len(points) == len(children):
            return children if len(children) <= _FEW else set(children)
        if len(points) == 1:
            (point,) = points
            return (children[point],)
        return {children[point] for point in points}

    def _bits_of(self, node: Node) -> Mapping[Node, int]:
        """Return the different children of a node, each with the points that lead to it as bits."""
        found = self._bits.get(node)
        if found is None:
            bits: dict[Node, int] = {}
            for point, child in enumerate(self._nodes.children(node)):
                bits[child] = bits.get(child, 0) | 1 << point
            found = self._bits[node] = bits
        return found
