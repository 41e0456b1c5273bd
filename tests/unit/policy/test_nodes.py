"""Sets of combinations over axes of few and of many points: each operation is that of plain sets."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callability.compiler.combination_sets import PointsAlong
from callability.compiler.nodes import EMPTY, Node, Nodes, TooManyNodes

POINTS = (3, 40, 2)
EVERY = frozenset(product(*map(range, POINTS)))
Combinations = frozenset[tuple[int, ...]]


def _boxes(sizes: Iterable[int]) -> st.SearchStrategy[tuple[frozenset[int], ...]]:
    """Draw some points of each axis: one, a few, or all but a few."""

    def points(size: int) -> st.SearchStrategy[frozenset[int]]:
        some = st.frozensets(st.integers(0, size - 1), min_size=1, max_size=4)
        return some | some.map(lambda few: frozenset(range(size)) - few or frozenset(range(size)))

    return st.tuples(*map(points, sizes))


_sets = st.lists(_boxes(POINTS), max_size=4).map(lambda each: frozenset().union(*(product(*box) for box in each)))


def _node(combinations: Combinations, nodes: Nodes) -> Node:
    singles = (nodes.box([frozenset((point,)) for point in each]) for each in sorted(combinations))
    return reduce(nodes.union, singles, EMPTY)


def _combinations(node: Node, nodes: Nodes) -> Combinations:
    def holds(combination: tuple[int, ...]) -> bool:
        found = node
        while children := nodes.children(found):
            found = children[combination[nodes.axis(found)]]
        return found != EMPTY

    return frozenset(filter(holds, EVERY))


@given(one=_sets, other=_sets)
def test_operations_on_nodes_are_those_on_sets(one: Combinations, other: Combinations) -> None:
    """Equal sets are one node, however they are made."""
    nodes = Nodes(POINTS, most=100_000)
    left, right = _node(one, nodes), _node(other, nodes)
    expected = {
        nodes.union(left, right): one | other,
        nodes.intersection(left, right): one & other,
        nodes.difference(left, right): one - other,
        nodes.complement(left): EVERY - one,
    }
    for node, combinations in expected.items():
        assert _combinations(node, nodes) == combinations
        assert _node(combinations, nodes) == node
        assert nodes.size(node) == len(combinations)


@given(given_set=_sets, box=_boxes(POINTS))
def test_the_points_of_an_axis_within_a_box_are_those_at_which_some_or_every_combination_is_in_a_set(
    given_set: Combinations, box: tuple[frozenset[int], ...]
) -> None:
    """The axis itself is not limited by the box."""
    nodes = Nodes(POINTS, most=100_000)
    node = _node(given_set, nodes)
    for axis, size in enumerate(POINTS):
        for every, some in ((True, all), (False, any)):
            expected = {
                point
                for point in range(size)
                if some(
                    each in given_set
                    for each in product(*({point} if place == axis else within for place, within in enumerate(box)))
                )
            }
            assert PointsAlong(nodes).find(node, axis, box, every=every) == expected


def test_looks_are_limited() -> None:
    """A set of many nodes is not searched for longer than was allowed."""
    within = [frozenset(range(1, size)) for size in POINTS]
    nodes = Nodes(POINTS, most=100_000)
    node = _node(frozenset(each for each in EVERY if sum(each) % 2), nodes)
    for looks, allowed in ((5, True), (4, False)):
        along = PointsAlong(nodes, looks)
        if allowed:
            assert along.find(node, 2, within, every=False) == {0, 1}
        else:
            with pytest.raises(TooManyNodes):
                along.find(node, 2, within, every=False)
