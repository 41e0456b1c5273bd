"""From the readings of facts to the points of the axes of a decision diagram."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from callability.bundle.v1 import bundle_pb2 as pb
from callability.columns.fact_column import number_of_codes
from callability.kernel.states import HINT_DEFAULTS, READS_ONLY

READ_ONLY = "annotations.read_only"
_FIXED = dict(zip(HINT_DEFAULTS, READS_ONLY, strict=True))
"""What the annotations that depend on each other are for a tool that only reads (spec A.2)."""


def sources(axis: pb.Axis, facts: Sequence[pb.Fact]) -> tuple[int, ...]:
    """Return the facts from which the point of an axis follows: its own, and what gives them their meaning."""
    mine = tuple(axis.facts)
    if any(facts[each].name in _FIXED for each in mine):
        read_only = next(number for number, fact in enumerate(facts) if fact.name == READ_ONLY)
        return tuple(dict.fromkeys((*mine, read_only)))
    return mine


def points(axis: pb.Axis, facts: Sequence[pb.Fact]) -> NDArray[np.int32]:
    """Return the point of an axis for each combination of the codes of its sources, as an array of that shape.

    Readings that cannot occur together are unknown, unless those that are known leave one point: an approval without a
    record has not disabled the tool.
    """
    read = sources(axis, facts)
    width = len(axis.facts)
    states: dict[tuple[int, ...], int] = {}
    for point in range(len(axis.readings) // width):
        states.setdefault(tuple(axis.readings[point * width : (point + 1) * width]), point)
    found = np.zeros([number_of_codes(facts[each]) for each in read], np.int32)
    for codes in product(*(range(length) for length in found.shape)):
        readings = dict(zip(read, codes, strict=True))
        normalized = _normalized(axis, facts, readings)
        found[codes] = _point(states, normalized, [len(facts[each].values) for each in axis.facts])
    return found


def _normalized(axis: pb.Axis, facts: Sequence[pb.Fact], readings: Mapping[int, int]) -> tuple[int, ...]:
    names = {facts[number].name: number for number in readings}
    if READ_ONLY in names and names.keys() <= _FIXED.keys():
        read_only = facts[names[READ_ONLY]]
        if readings[names[READ_ONLY]] == list(read_only.values).index("true"):
            return tuple(list(facts[each].values).index(_FIXED[facts[each].name]) for each in axis.facts)
        if any(reading == len(facts[number].values) for number, reading in readings.items()):
            return tuple(len(facts[each].values) for each in axis.facts)
    return tuple(readings[each] for each in axis.facts)


def _point(states: Mapping[tuple[int, ...], int], readings: tuple[int, ...], unknown: Sequence[int]) -> int:
    if readings in states:
        return states[readings]
    if len(readings) == 1:
        raise LookupError(f"no point of an axis has the reading {readings[0]} of its fact")
    fitting = [
        point
        for state, point in states.items()
        if all(mine in {none, its} for mine, its, none in zip(readings, state, unknown, strict=True))
        and all(its != none for its, none in zip(state, unknown, strict=True))
    ]
    return fitting[0] if len(fitting) == 1 else states[tuple(unknown)]
