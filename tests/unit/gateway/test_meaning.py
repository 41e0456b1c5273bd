"""Search by meaning (the extra `semantic`, A.4)."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callability.gateway.meaning import FIRST_BY_WORDS, Indexes, MeaningIndex, in_turn, word_vectors
from callability.gateway.tool_index import SearchDocument
from support.drawing import drawing
from support.stand_ins import WAYS, Shelf, scene

semantic_wanted = pytest.mark.skipif(True not in WAYS, reason="the extra `semantic` is not installed")

TEXTS = {
    "get_forecast": "Weather for a city over the next days.",
    "send_mail": "Sends a letter to somebody.",
    "resize_image": "Changes the size of a picture.",
    "read_file": "Reads a file from disk.",
}
DOCUMENTS = tuple(SearchDocument(name, "s", "", text) for name, text in TEXTS.items())
PARAPHRASE = "do I need an umbrella, will there be rain or sunshine"


def _tools(names: Mapping[str, str]) -> tuple[dict[str, Any], ...]:
    return tuple({"name": name, "description": text} for name, text in names.items())


def _answer(
    directory: Path | str, entries: Mapping[str, Any], query: str, *, by_meaning: bool, **arguments: Any
) -> Any:
    shelves = dict.fromkeys(entries, Shelf(_tools(TEXTS)))
    made = scene(Path(directory), dict(entries), shelves, by_meaning=by_meaning)
    [answer] = asyncio.run(made.answers([("retrieve_tools", {"query": query, **arguments})]))
    return json.loads(json.loads(answer)["content"][0]["text"])


@semantic_wanted
def test_a_paraphrase_finds_a_tool_with_other_words(tmp_path: Path) -> None:
    """By words, nothing is found."""
    assert _answer(tmp_path, {"s": {}}, PARAPHRASE, by_meaning=False)["tools"] == []
    assert _answer(tmp_path, {"s": {}}, PARAPHRASE, by_meaning=True)["tools"][0]["name"] == "s:get_forecast"


@semantic_wanted
def test_a_locked_tool_is_found_by_words_alone(tmp_path: Path) -> None:
    """Nearest neighbours always exist, so they neither show a lock nor keep a notice back (FR-009)."""
    entries = {"open": {"disabled_tools": ["read_file"]}, "locked": {"disabled_tools": [*TEXTS]}}
    arguments = {"by_meaning": True, "include_disabled": True}
    assert "disabled" not in _answer(tmp_path, entries, PARAPHRASE, **arguments)
    found = _answer(tmp_path, entries, "disk", by_meaning=True)
    assert found["notice"].startswith("2 matching tools exist but cannot be called")
    assert "notice" not in _answer(tmp_path, entries, "letter", by_meaning=True)


@semantic_wanted
def test_hits_by_words_come_first() -> None:
    """Five of them, then those by meaning, then the others; each once."""
    words = [f"s:w{number}" for number in range(8)]
    assert in_turn(words, ["s:m", "s:w1", "s:w6"]) == (*words[:FIRST_BY_WORDS], "s:m", "s:w6", "s:w5", "s:w7")


@semantic_wanted
@pytest.mark.parametrize("query", ["\ud800", "x" * 100_000, "?", "天気", "a\0b"])
def test_any_text_is_a_query(query: str) -> None:
    """Halves of characters, long ones, and such without a word."""
    found = MeaningIndex(DOCUMENTS, word_vectors()).nearest(query, 3)
    assert len(found) <= 3


@semantic_wanted
def test_equal_tools_are_in_the_order_of_their_names() -> None:
    """Also where the limit cuts through a tie."""
    many = tuple(SearchDocument("get_forecast", f"s{number}", "", "Weather.") for number in range(30))
    index = MeaningIndex(many[::-1], word_vectors())
    names = sorted(document.qualified_name for document in many)
    assert index.nearest("rain", 30) == tuple(names)
    assert index.nearest("rain", 7) == tuple(names[:7])


@semantic_wanted
def test_an_index_of_no_tool_or_of_one_is_searched() -> None:
    """A query of stop words alone, of no word, or longer than what is read of it, is a text as well."""
    for query in ("to the of", " ", "rain " * 5000, "rain"):
        assert MeaningIndex((), word_vectors()).nearest(query, 3) == ()
        assert len(MeaningIndex(DOCUMENTS[:1], word_vectors()).nearest(query, 3)) <= 1
    assert MeaningIndex(DOCUMENTS[:1], word_vectors()).nearest("rain " * 5000, 3) == ("s:get_forecast",)


@semantic_wanted
@pytest.mark.anyio
async def test_agents_that_search_at_once_share_the_vectors() -> None:
    """They are made once, and one that goes away leaves the others theirs."""
    indexes = Indexes(by_meaning=True)
    index = await indexes.of(DOCUMENTS)
    waiting = [asyncio.create_task(indexes.meaning_of(index)) for _ in range(4)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    first, *others = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(first, asyncio.CancelledError)
    assert len({id(each) for each in others}) == 1
    assert await indexes.meaning_of(index) is others[0]


@semantic_wanted
@drawing(40)
@given(seen=st.sets(st.sampled_from(DOCUMENTS)), query=st.sampled_from([PARAPHRASE, "file", "picture", "to whom"]))
def test_other_tools_change_no_order(seen: set[SearchDocument], query: str) -> None:
    """What is found in some tools is what is found in all of them, without the others (FR-002, FR-007)."""
    vectors = word_vectors()
    names = {document.qualified_name for document in seen}
    among_all = MeaningIndex(DOCUMENTS, vectors).nearest(query, len(DOCUMENTS))
    assert MeaningIndex(seen, vectors).nearest(query, len(DOCUMENTS)) == tuple(it for it in among_all if it in names)


@semantic_wanted
def test_vectors_are_the_same_integers_on_every_machine() -> None:
    """Recorded on x86-64 with numpy 2.4; the order of the sums and the kind of the processor do not matter."""
    vectors = word_vectors().of_documents(DOCUMENTS)
    assert (vectors == vectors.round()).all()
    written = vectors.astype("<i4").tobytes()
    assert hashlib.sha256(written).hexdigest() == "13451750fab159a3afb520f47ba4b380cb1ef18d1c41a8b4ac19a2775aef1e45"


@pytest.mark.parametrize("by_meaning", WAYS)
@drawing(40)
@given(
    names=st.sets(st.sampled_from([*TEXTS]), min_size=1),
    query=st.sampled_from([PARAPHRASE, "file", "send letter", "picture size", "weather", "nothing at all", "s"]),
    limit=st.integers(1, 6),
    schemas=st.sampled_from(["full", "first", "none"]),
)
def test_locked_tools_change_no_byte_but_a_notice(
    names: set[str], query: str, limit: int, schemas: str, by_meaning: bool
) -> None:
    """FR-002: a notice is there only if no callable tool was found by words (FR-009)."""
    arguments = {"query": query, "limit": limit, "schemas": schemas}
    listed = {"open": Shelf(_tools({name: TEXTS[name] for name in sorted(names)})), "locked": Shelf(_tools(TEXTS))}
    lists = {"open": {}, "locked": {"disabled_tools": [*TEXTS]}}
    with TemporaryDirectory() as directory:
        both = scene(Path(directory), lists, listed, by_meaning=by_meaning)
        [one] = asyncio.run(both.answers([("retrieve_tools", arguments)]))
        alone = scene(Path(directory), {"open": {}}, {"open": listed["open"]}, by_meaning=by_meaning)
        [other] = asyncio.run(alone.answers([("retrieve_tools", arguments)]))
        words = scene(Path(directory), {"open": {}}, {"open": listed["open"]})
        [by_words] = asyncio.run(words.answers([("retrieve_tools", arguments)]))
    if one != other:
        with_notice = json.loads(json.loads(one)["content"][0]["text"])
        assert "cannot be called" in with_notice.pop("notice")
        assert with_notice == json.loads(json.loads(other)["content"][0]["text"])
        assert json.loads(json.loads(by_words)["content"][0]["text"])["tools"] == []
