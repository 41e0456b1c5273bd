"""The classes of names that a policy distinguishes, for whole columns of names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from callability.bundle.v1 import bundle_pb2 as pb

_SPECIAL = re.compile(r"([^A-Za-z0-9_\x80-\U0010ffff])")
"""What is escaped in an expression: only ASCII may be."""


class NameClasses:
    """Maps names to the readings of a fact that is a name.

    The groups of patterns are tried one after the other. What has matched so far is a state, so that a name needs one
    look-up for each group, however many classes there are.
    """

    def __init__(self, fact: pb.Fact) -> None:
        self._groups = [tuple(group.patterns) for group in fact.pattern_groups]
        self._classes = [frozenset(each.groups) for each in fact.name_classes]

    def readings(self, names: pa.Array) -> NDArray[np.int32]:
        """Return the reading of each of some names, which are not null; -1 for a name that no class has."""
        states: NDArray[np.int32] = np.zeros(len(names), np.int32)
        for patterns, table in zip(self._groups, self._tables, strict=True):
            states = np.where(states < 0, -1, table[states * 2 + _matched(patterns, names)])
        return states

    @cached_property
    def _tables(self) -> list[NDArray[np.int32]]:
        """For each group: from the state before it, doubled, plus whether it matches, to the state after it.

        What is part of no class leads to -1.
        """
        tables = []
        states: dict[frozenset[int], int] = {frozenset(): 0}
        for number in range(len(self._groups)):
            last = number == len(self._groups) - 1
            following: dict[frozenset[int], int] = {}
            if last:
                following = {members: reading for reading, members in enumerate(self._classes)}
            prefixes = {frozenset(each for each in members if each <= number) for members in self._classes}
            table = np.full(2 * len(states), -1, np.int32)
            for members, state in states.items():
                for bit in (0, 1):
                    after = members | {number} if bit else members
                    if after in prefixes:
                        table[2 * state + bit] = following.setdefault(after, len(following))
            states = following
            tables.append(table)
        return tables


def _matched(patterns: Iterable[str], names: pa.Array) -> NDArray[np.int32]:
    """Return 1 for each name that is one of some names, or is matched by one of the patterns among them."""
    exact = [each for each in patterns if not {"*", "?"} & set(each)]
    found = pc.is_in(names, value_set=pa.array(exact, names.type))
    for glob in patterns:
        if glob not in exact:
            found = pc.or_(found, pc.match_substring_regex(names, _regex(glob)))
    matched: NDArray[np.int32] = found.to_numpy(zero_copy_only=False).astype(np.int32)
    return matched


def _regex(glob: str) -> str:
    """Return an expression (RE2) that matches the whole of the names that a pattern matches."""
    parts = ({"*": ".*", "?": "."}.get(each) or _SPECIAL.sub(r"\\\1", each) for each in glob)
    return rf"(?s)\A{''.join(parts)}\z"
