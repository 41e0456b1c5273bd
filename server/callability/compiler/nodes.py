"""Shared nodes of decision diagrams over axes of many points, and the operations on the sets that they describe.

A node tests one axis and has a child for each of its points; an axis that makes no difference is not tested. Equal
nodes are one node, so that two sets are equal if their nodes are, and an operation on two nodes is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

Node = int
"""A node by its number. The first two are the sets that hold nothing, and everything."""

EMPTY: Node = 0
FULL: Node = 1


MAX_STEPS = 20_000_000
"""Children that all nodes which are computed in one store may have together, whether they are new or not."""
_FEW = 8
"""Points of an axis up to which it costs less to compute each pair of children than to look for those that differ."""
Points = Collection[int] | None
"""Some points of an axis; None stands for all of them."""


class TooManyNodes(Exception):
    """More nodes than a store may hold, or more steps to compute them than it may take."""


class Nodes:
    """The nodes over some axes, given by their numbers of points, from the first axis that is tested to the last.

    Each operation raises `TooManyNodes` where it would need more nodes than there may be. A step is a child of a node
    that is computed: so time and memory are bounded, and on every machine at the same place.
    """

    def __init__(self, points: Sequence[int], most: int, steps: int = MAX_STEPS) -> None:
        self.points = tuple(points)
        self._most = most
        self._steps = steps
        self._axis: list[int] = [len(points), len(points)]
        self._children: list[tuple[Node, ...]] = [(), ()]
        self._numbers: dict[tuple[int, tuple[Node, ...]], Node] = {}
        self._terminals: list[Node] = []
        self._intersections: dict[tuple[Node, Node], Node] = {}
        self._unions: dict[tuple[Node, Node], Node] = {}
        self._differences: dict[tuple[Node, Node], Node] = {}
        self._complements: dict[Node, Node] = {EMPTY: FULL, FULL: EMPTY}
        self._sizes: dict[Node, int] = {EMPTY: 0, FULL: 1}
        self._points: dict[Node, Sequence[tuple[int, Node]]] = {}
        # How many combinations the axes from each one on have.
        self._combinations = [1] * (len(points) + 1)
        for axis in reversed(range(len(points))):
            self._combinations[axis] = self._combinations[axis + 1] * points[axis]

    def __len__(self) -> int:
        """How many nodes there are."""
        return len(self._axis)

    def axis(self, node: Node) -> int:
        """Return the axis that a node tests; the number of axes if it tests none."""
        return self._axis[node]

    def children(self, node: Node) -> tuple[Node, ...]:
        """Return the children of a node, one for each point of its axis."""
        return self._children[node]

    def children_at(self, node: Node, axis: int) -> tuple[Node, ...]:
        """Return what a node becomes at each point of an axis that is not below the one that it tests."""
        return self._children[node] if self._axis[node] == axis else (node,) * self.points[axis]

    def node(self, axis: int, children: tuple[Node, ...]) -> Node:
        """Return the node that tests an axis and has these children; one of them if they are all the same."""
        self._steps -= len(children)
        if self._steps < 0:
            raise TooManyNodes
        first = children[0]
        if children.count(first) == len(children):
            return first
        key = (axis, children)
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = self._add(axis, children)
        return found

    def below(self, node: Node) -> set[Node]:
        """Return a node and those below it that have children."""
        found: set[Node] = set()
        waiting = [node]
        while waiting:
            one = waiting.pop()
            if one not in found and self._children[one]:
                found.add(one)
                waiting.extend(set(self._children[one]))
        return found

    def terminal(self) -> Node:
        """Return a new node without children, which no set has: a result of a diagram that has several."""
        return self._add(len(self.points), ())

    def _add(self, axis: int, children: tuple[Node, ...]) -> Node:
        if len(self._axis) >= self._most:
            raise TooManyNodes
        self._axis.append(axis)
        self._children.append(children)
        return len(self._axis) - 1

    def intersection(self, one: Node, other: Node) -> Node:
        """Return what is in both sets."""
        if other in (one, FULL):
            return one
        if one == FULL:
            return other
        if EMPTY in (one, other):
            return EMPTY
        key = (one, other) if one < other else (other, one)
        found = self._intersections.get(key)
        if found is None:
            found = self._intersections[key] = self._both(self.intersection, one, other, kept=False)
        return found

    def union(self, one: Node, other: Node) -> Node:
        """Return what is in either set."""
        if other in (one, EMPTY):
            return one
        if one == EMPTY:
            return other
        if FULL in (one, other):
            return FULL
        key = (one, other) if one < other else (other, one)
        found = self._unions.get(key)
        if found is None:
            found = self._unions[key] = self._both(self.union, one, other, kept=True)
        return found

    def difference(self, one: Node, other: Node) -> Node:
        """Return what is in the first set and not in the other."""
        if one in (EMPTY, other) or other == FULL:
            return EMPTY
        if other == EMPTY:
            return one
        if one == FULL:
            return self.complement(other)
        key = (one, other)
        found = self._differences.get(key)
        if found is None:
            found = self._differences[key] = self._each(self.difference, one, other, kept=True)
        return found

    def complement(self, node: Node) -> Node:
        """Return what is not in a set."""
        found = self._complements.get(node)
        if found is None:
            found = self.node(self._axis[node], tuple(map(self.complement, self._children[node])))
            self._complements[node] = found
            self._complements[found] = node
        return found

    def with_result(self, diagram: Node, where: Node, result: Node) -> Node:
        """Return a diagram with a result wherever a set is, and unchanged elsewhere."""
        done: dict[tuple[Node, Node], Node] = {}

        def change(one: Node, where: Node) -> Node:
            if where == EMPTY:
                return one
            if where == FULL:
                return result
            key = (one, where)
            if key not in done:
                done[key] = self._each(change, one, where, kept=True)
            return done[key]

        return change(diagram, where)

    def restrict(self, node: Node, axis: int, points: Collection[int]) -> Node:
        """Return what of a set is at one of some points of an axis."""
        inside = tuple(FULL if point in points else EMPTY for point in range(self.points[axis]))
        return self.intersection(node, self.node(axis, inside))

    def at(self, node: Node, axis: int, point: int) -> Node:
        """Return the set, no longer dependent on an axis, of what a set has at one point of it."""
        if self._axis[node] >= axis:
            return self._children[node][point] if self._axis[node] == axis else node
        return self._along(node, axis, lambda children: children[point])

    def somewhere(self, node: Node, axis: int, points: Collection[int]) -> Node:
        """Return the set, no longer dependent on an axis, of what a set has at any of some points of it."""

        def any_of(children: tuple[Node, ...]) -> Node:
            found = EMPTY
            for child in dict.fromkeys(children[point] for point in points):
                found = self.union(found, child)
            return found

        return self._along(node, axis, any_of)

    def everywhere(self, node: Node, axis: int, points: Collection[int]) -> Node:
        """Return the set, no longer dependent on an axis, of what a set has at each of some points of it."""

        def all_of(children: tuple[Node, ...]) -> Node:
            found = FULL
            for child in dict.fromkeys(children[point] for point in points):
                found = self.intersection(found, child)
            return found

        return self._along(node, axis, all_of)

    def box(self, within: Sequence[Points]) -> Node:
        """Return the set of all combinations of some points of each axis."""
        node = FULL
        for axis in reversed(range(len(self.points))):
            points = within[axis]
            if points is not None and node != EMPTY:
                children = [EMPTY] * self.points[axis]
                for point in points:
                    children[point] = node
                node = self.node(axis, tuple(children))
        return node

    def size(self, node: Node) -> int:
        """Return how many combinations a set has."""
        return self._size(node) * self._combinations[0] // self._combinations[self._axis[node]]

    def _size(self, node: Node) -> int:
        """Return how many combinations of the axes from its own on a node has."""
        found = self._sizes.get(node)
        if found is None:
            rest = self._combinations[self._axis[node] + 1]
            # Children that are the same are counted once.
            counts: dict[Node, int] = {}
            for child in self._children[node]:
                counts[child] = counts.get(child, 0) + 1
            found = sum(
                count * self._size(child) * (rest // self._combinations[self._axis[child]])
                for child, count in counts.items()
            )
            self._sizes[node] = found
        return found

    def _each(self, operation: Callable[[Node, Node], Node], one: Node, other: Node, *, kept: bool) -> Node:
        """Return the node of an operation on the children of two nodes, of which one may test a later axis.

        `kept` says what the operation makes of a node and nothing: that node, or nothing. Of many points of an axis,
        most lead to nothing in one of the two, or to a pair of children that others lead to.
        """
        axis = min(self._axis[one], self._axis[other])
        left, right = self.children_at(one, axis), self.children_at(other, axis)
        if len(left) <= _FEW:
            return self.node(axis, tuple(map(operation, left, right)))
        few = self._few(other) if self._axis[other] == axis else None
        if few is not None:
            children = [*left] if kept else [EMPTY] * len(left)
            for point, child in few:
                children[point] = operation(left[point], child)
            return self.node(axis, tuple(children))
        found = {pair: operation(*pair) for pair in dict.fromkeys(zip(left, right, strict=True))}
        return self.node(axis, tuple([found[pair] for pair in zip(left, right, strict=True)]))

    def _both(self, operation: Callable[[Node, Node], Node], one: Node, other: Node, *, kept: bool) -> Node:
        """Return the same for an operation that is the same both ways."""
        if self._axis[one] == self._axis[other] and self._few(one) is not None:
            one, other = other, one
        return self._each(operation, one, other, kept=kept)

    def _few(self, node: Node) -> Sequence[tuple[int, Node]] | None:
        """Return the points that lead to something, with what they lead to; None if they are not few."""
        children = self._children[node]
        if (len(children) - children.count(EMPTY)) * _FEW > len(children):
            return None
        found = self._points.get(node)
        if found is None:
            found = self._points[node] = [(point, child) for point, child in enumerate(children) if child]
        return found

    def _along(self, node: Node, axis: int, combined: Callable[[tuple[Node, ...]], Node]) -> Node:
        """Return a set in which every test of an axis is replaced by what its children come to."""
        done: dict[Node, Node] = {}

        def change(one: Node) -> Node:
            tested = self._axis[one]
            if tested > axis:
                return one
            if one not in done:
                children = self._children[one]
                done[one] = combined(children) if tested == axis else self.node(tested, tuple(map(change, children)))
            return done[one]

        return change(node)
