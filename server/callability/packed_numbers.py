"""Columns of numbers in messages: one, two or four bytes each, the lowest first, as few as the largest needs."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Sequence

_TYPES = {1: "B", 2: "H", 4: "I"}


def width_of(count: int) -> int:
    """Return how many bytes each number below a count has."""
    return 1 if count <= 1 << 8 else 2 if count <= 1 << 16 else 4


def packed(numbers: Iterable[int], count: int) -> bytes:
    """Return numbers below a count as a column."""
    width = width_of(count)
    if width == 1:
        return bytes(numbers)
    found = array(_TYPES[width], numbers)
    if sys.byteorder == "big":
        found.byteswap()
    return found.tobytes()


def unpacked(column: bytes, count: int) -> Sequence[int]:
    """Return the numbers below a count in a column, whose length fits; of single bytes, the column itself."""
    width = width_of(count)
    if width == 1:
        return column
    found = array(_TYPES[width], column)
    if sys.byteorder == "big":
        found.byteswap()
    return found
