"""Answers for whole columns of points: a decision diagram with one byte for each tool, walked some axes at a time.

A column of bytes is also one large number, whose digits are the bytes. So a column is multiplied, and two are added, in
one operation each, and `bytes.translate` looks every byte up in a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

BYTE = 256
"""Values of a byte."""


@dataclass(frozen=True, slots=True)
class Step:
    """A table that tests some axes at once: from the state of a tool and its points to its next state.

    `scale` is how many combinations the axes have, and `weights` are what the point of each axis is multiplied by.
    """

    axes: tuple[int, ...]
    weights: tuple[int, ...]
    scale: int
    table: bytes


class AnswerTable:
    """Steps that lead from the points of axes to the number of an answer."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = tuple(steps)

    def answers(self, columns: Sequence[bytes], tools: int) -> bytes:
        """Return the number of the answer for each tool, by columns of points that are all in their ranges."""
        states = bytes(tools)
        for step in self._steps:
            places = int.from_bytes(states, "little") * step.scale
            for axis, weight in zip(step.axes, step.weights, strict=True):
                places += int.from_bytes(columns[axis], "little") * weight
            states = places.to_bytes(tools, "little").translate(step.table)
        return states


def combinations(sizes: Sequence[int]) -> product[tuple[int, ...]]:
    """Return every combination of points of axes with so many points, in the order that `table_of` takes."""
    return product(*map(range, sizes))


def table_of(sizes: Sequence[int], answers: Sequence[int]) -> AnswerTable | None:
    """Return the table of the answers to every combination; None if a state and a point need more than a byte."""
    if max(answers) >= BYTE:
        return None
    levels = _levels(sizes, answers)
    steps: list[Step] = []
    start = 0
    while start < len(sizes):
        states = len(levels[start])
        end = start
        while end < len(sizes) and states * prod(sizes[start : end + 1]) <= BYTE:
            end += 1
        if end == start:
            return None
        steps.append(_step(levels, sizes, start, end))
        start = end
    return AnswerTable(steps)


def _levels(sizes: Sequence[int], answers: Sequence[int]) -> list[list[tuple[int, ...]]]:
    """Return for each axis the states before it, each with the state behind each point. States have no equals."""
    behind = list(answers)
    levels: list[list[tuple[int, ...]]] = []
    for size in reversed(sizes):
        rows = [tuple(behind[place : place + size]) for place in range(0, len(behind), size)]
        numbers = {row: number for number, row in enumerate(dict.fromkeys(rows))}
        levels.append(list(numbers))
        behind = [numbers[row] for row in rows]
    levels.reverse()
    return levels


def _step(levels: Sequence[Sequence[tuple[int, ...]]], sizes: Sequence[int], start: int, end: int) -> Step:
    table = []
    for first, points in product(range(len(levels[start])), combinations(sizes[start:end])):
        reached = first
        for level, point in zip(levels[start:end], points, strict=True):
            reached = level[reached][point]
        table.append(reached)
    weights = tuple(prod(sizes[axis + 1 : end]) for axis in range(start, end))
    whole = bytes(table).ljust(BYTE, b"\0")
    return Step(tuple(range(start, end)), weights, prod(sizes[start:end]), whole)
