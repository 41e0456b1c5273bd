"""JSON of upstreams, read with the numbers that they wrote."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callability.adapter import JsonNumber, checked_limit, read_json, result_json

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(value=_JSON)
def test_what_python_writes_is_read_as_what_it_was(value: object) -> None:
    """A proxy that reads with it notices no difference; only large numbers keep their text."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    assert result_json({"value": read_json(text)}) == f'{{"value":{text}}}'


@pytest.mark.parametrize("text", ["", "{", "NaN", "Infinity", "-Infinity", "01", "1.", ".5", "+1", "1e", "0x1", "'a'"])
def test_what_is_no_json_is_an_error(text: str) -> None:
    """Python's own reader takes NaN and Infinity."""
    with pytest.raises(ValueError, match=r"line 1|no JSON number"):
        read_json(text)


def test_nesting_without_end_is_an_error_and_no_crash() -> None:
    """An upstream chooses it."""
    with pytest.raises(ValueError, match="nested too deeply"):
        read_json("[" * 1_000_000)


@pytest.mark.parametrize("text", ["", "NaN", "1 ", "1,2", '1}"', "٣", "1\n"])
def test_a_number_that_is_none_cannot_be_made(text: str) -> None:
    """It would be written as it is."""
    with pytest.raises(ValueError, match="no JSON number"):
        JsonNumber(text)


def test_a_number_with_a_text_of_its_own_is_a_limit() -> None:
    """A proxy may read the arguments of a call with it."""
    assert checked_limit(read_json("1.50e1")) == 15
