"""The vectors of the adapter: what docs/adapter.md specifies, byte for byte."""

from __future__ import annotations

import json

import pytest

from support.adapter_vectors import DIRECTORY, FUNCTIONS, load, replayed, written

FILES = {function: load(function) for function in FUNCTIONS}
VECTORS = [(function, number) for function in FUNCTIONS for number in range(len(FILES[function]["vectors"]))]


@pytest.mark.parametrize(
    ("function", "number"),
    VECTORS,
    ids=[f"{name}: {FILES[name]['vectors'][number]['name']}" for name, number in VECTORS],
)
def test_the_adapter_answers_as_the_vector_says(function: str, number: int) -> None:
    """To the byte."""
    vector = FILES[function]["vectors"][number]
    assert replayed(function, vector, FILES[function].get("judgements", {})) == vector["result"]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_each_vector_has_a_name_of_its_own_and_a_result_that_is_json(function: str) -> None:
    """A name is a sentence, so that a failure in any language says what is wrong."""
    vectors = FILES[function]["vectors"]
    assert len({vector["name"] for vector in vectors}) == len(vectors)
    for vector in vectors:
        assert vector["result"] is None or isinstance(json.loads(vector["result"]), dict)


def test_every_file_is_replayed_and_written_in_one_form() -> None:
    """There are at least 300 vectors, and no file that nobody reads."""
    assert {path.stem for path in DIRECTORY.glob("*.json")} == set(FUNCTIONS)
    assert len(VECTORS) >= 300
    for function in FUNCTIONS:
        assert (DIRECTORY / f"{function}.json").read_text(encoding="utf-8") == written(FILES[function])
