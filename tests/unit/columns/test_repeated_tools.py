"""Rows that name a tool that an earlier row has named."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callability.tables import column_policy
from callability.tables.column_policy import RepeatedTools
from support.drawing import drawing

_NAMES = st.sampled_from(["a", "b", "ab", "", None])
_ROWS = st.lists(st.lists(st.tuples(_NAMES, _NAMES), max_size=6), max_size=8)


def _batch(rows: Sequence[tuple[str | None, str | None]], *, encoded: bool = False) -> pa.RecordBatch:
    columns = [pa.array([row[place] for row in rows], pa.string()) for place in (0, 1)]
    return pa.record_batch([each.dictionary_encode() if encoded else each for each in columns], column_policy.KEY[:2])


@drawing(100)
@given(_ROWS)
def test_each_row_that_repeats_an_earlier_one_is_counted(batches: list[list[tuple[str | None, str | None]]]) -> None:
    """In its batch or in one before it, whatever its dictionaries are."""
    repeated = RepeatedTools()
    for number, rows in enumerate(batches):
        repeated.look_at(_batch(rows, encoded=number % 2 == 0))
    every = [row for rows in batches for row in rows]
    assert repeated.rows == len(every) - len(set(every))


def test_a_table_without_names_repeats_none() -> None:
    """There is nothing to compare."""
    repeated = RepeatedTools()
    repeated.look_at(_batch([("a", "b")] * 2).drop_columns(["tool.name"]))
    assert repeated.rows == 0


def test_only_the_first_rows_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory stays the same, however many rows there are."""
    monkeypatch.setattr(column_policy, "MAX_ROWS", 2)
    repeated = RepeatedTools()
    for _ in range(3):
        repeated.look_at(_batch([("a", "b")]))
    assert (repeated.rows, repeated.first) == (1, "a:b")
