"""Search over the tools that a caller may see."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callability.gateway.meaning import Indexes
from callability.gateway.tool_index import NotGrowing, SearchDocument, ToolIndex, words
from support.checkout import TESTS
from support.drawing import drawing
from support.waiting import eventually

DELETE = SearchDocument("delete_file", "files", "Delete a file", "Removes one file for good.", ("path",))
READ = SearchDocument("readFile", "files", "Read a file", "Returns the content of one file.", ("path", "encoding"))
BRANCH = SearchDocument("delete_branch", "git", "", "Removes a branch of the repository.", ("branch_name",))
NOW = SearchDocument("get_current_time", "clock", "", "What time it is in a time zone.", ("timezone",))
ALL = (DELETE, READ, BRANCH, NOW)


def found(query: str, documents: tuple[SearchDocument, ...] = ALL, limit: int | None = None) -> list[str]:
    """Return the names that a query finds in an index of the documents."""
    return [hit.document.qualified_name for hit in ToolIndex(documents).search(query, limit)]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("delete_file", "files:delete_file"),
        ("files:delete_file", "files:delete_file"),
        ("DeleteFile", "files:delete_file"),
        ("read-file", "files:readFile"),
        ("please call delete_branch for the repository of this file", "git:delete_branch"),
        ("time", "clock:get_current_time"),
        ("git", "git:delete_branch"),
        ("encoding", "files:readFile"),
        ("timezone", "clock:get_current_time"),
        ("deleting branches", "git:delete_branch"),
        ("repositories", "git:delete_branch"),
        ("curr", "clock:get_current_time"),
    ],
)
def test_a_tool_is_found_by_all_that_is_known_of_it(query: str, first: str) -> None:
    """Its name however it is written, the beginnings of its words, its server, its text and its parameters."""
    assert found(query)[0] == first


def test_the_beginning_of_a_word_finds_every_name_with_it() -> None:
    """Half a word is enough, and equal scores are in the order of the names."""
    assert found("del") == ["files:delete_file", "git:delete_branch"]


def test_a_whole_word_of_a_name_comes_before_the_beginning_of_one() -> None:
    """Even if the whole word is common and its beginning rare."""
    whole = tuple(SearchDocument(f"del_{number}_of_many_words_in_a_long_name", "s") for number in range(50))
    answer = found("del", (*whole, SearchDocument("delete", "a")))
    assert len(answer) == 51
    assert answer[-1] == "a:delete"


def test_an_exact_name_comes_before_any_text() -> None:
    """A description that repeats a name does not outweigh it."""
    loud = SearchDocument("other_tool", "s", "move file", "move_file " * 200)
    assert found("move_file", (loud, SearchDocument("move_file", "z"))) == ["z:move_file", "s:other_tool"]


def test_a_name_comes_before_a_description() -> None:
    """The name of a tool counts more than its description."""
    named, described = SearchDocument("upload_report", "z"), SearchDocument("send", "a", "", "Will upload a report.")
    assert found("upload report", (described, named)) == ["z:upload_report", "a:send"]


def test_nothing_is_found_where_nothing_matches() -> None:
    """A tool without any of the words is not found, and stop words do not count."""
    assert found("weather in the city") == []


@pytest.mark.parametrize("query", ["", " \n", "?!*", "\ud800", "()", '""'])
def test_a_query_without_words_finds_nothing(query: str) -> None:
    """White space, punctuation and halves of characters are not words."""
    assert found(query) == []


def test_a_query_of_stop_words_finds_by_name() -> None:
    """A tool may have such a name; a description that contains the word is not found."""
    assert found("do it", (*ALL, SearchDocument("do", "s"))) == ["s:do"]


@pytest.mark.parametrize("query", ['delete AND "branch', "+delete -branch", "name:delete^9 (branch", "delete~ branch*"])
def test_operators_are_plain_words(query: str) -> None:
    """The syntax of a search engine does not change the first result."""
    assert found(query)[0] == "git:delete_branch"


def test_scripts_without_spaces_are_found_by_their_characters() -> None:
    """A description in Chinese is searched as well as one in English."""
    assert found("搜索", (*ALL, SearchDocument("find", "s", "", "在文件中搜索文本"))) == ["s:find"]


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("मौसम", "आज का मौसम बताता है।"),
        ("อากาศ", "พยากรณ์ อากาศ วันนี้"),
        ("الطقس", "يعرض حالة الطقس اليوم"),
        ("날씨", "오늘의 날씨 예보"),
        ("Käse", "Bestellt Ka\u0308se."),
        ("\uff46\uff4f\uff52\uff45cast", "Shows a forecast."),
    ],
)
def test_words_of_other_scripts_find_their_tool(query: str, text: str) -> None:
    """With vowel signs, with marks of their own, and in full width."""
    assert found(query, (*ALL, SearchDocument("find", "s", "", text))) == ["s:find"]


def test_what_ties_with_the_last_hit_is_read_to_the_end() -> None:
    """Many better hits and many equal ones: the names decide, whatever the limit cuts."""
    better = tuple(SearchDocument("upload_file", f"a{number}") for number in range(20))
    equal = tuple(SearchDocument(f"list_{number}", "z", "", "Upload.") for number in range(300))
    whole = found("upload file", (*equal, *better))
    assert len(whole) == 320
    for limit in (1, 15, 19, 20, 21, 60, 100):
        assert found("upload file", (*equal[::-1], *better), limit) == whole[:limit]


def test_an_empty_index_finds_nothing() -> None:
    """A caller who may see no tool gets no hit and no error."""
    assert (len(ToolIndex(())), found("delete", ())) == (0, [])


def test_a_limit_below_one_is_an_error() -> None:
    """Zero and negative numbers have no meaning here."""
    for limit in (0, -1):
        with pytest.raises(ValueError, match="at least 1"):
            ToolIndex(ALL).search("delete", limit)


def test_ties_are_cut_in_the_order_of_the_names() -> None:
    """The limit cuts the whole order, also of a thousand equal tools."""
    documents = tuple(replace(DELETE, server=f"s{number}") for number in range(1000))
    names = sorted(document.qualified_name for document in documents)
    assert found("delete file", documents[::-1]) == names
    assert found("delete file", documents, 7) == names[:7]


def test_hits_far_below_the_best_are_left_out_on_request() -> None:
    """What shares one common word with the query is not worth its tokens; the best hit always stays."""
    documents = (*ALL, *(SearchDocument(f"other_{number}", "s", "", "A file.") for number in range(8)))
    everything = ToolIndex(documents).search("delete_file")
    near = ToolIndex(documents).search("delete_file", only_near=True)
    assert len(everything) > len(near) == 1
    assert everything[:1] == near
    alike = ToolIndex(documents[len(ALL) :])
    assert len(alike.search("a file", only_near=True)) == len(alike.search("a file")) == 8


def test_hits_are_ordered_by_score_and_then_by_name() -> None:
    """Scores fall, and equal ones are in the order of the names."""
    hits = ToolIndex(ALL).search("delete the file in the branch")
    assert list(hits) == sorted(hits, key=lambda hit: (-hit.score, hit.document.qualified_name))


def test_of_a_long_query_the_rarest_words_are_searched_for_in_texts() -> None:
    """Not the first ones: the word that says what is wanted often comes last."""
    common = " ".join(f"common{number}x" for number in range(60))
    chatty = tuple(SearchDocument(f"tool_{number}", "s", "", common) for number in range(3))
    assert "git:delete_branch" in found(f"{common} repository", (*ALL, *chatty))
    first = " ".join(f"common{number}x" for number in range(32))
    last = " ".join(f"common{number}x" for number in range(32, 60))
    halves = (SearchDocument("one", "s", "", first), SearchDocument("two", "s", "", last))
    assert found(f"{common} {common}", halves) == ["s:one"]


def test_words_that_are_in_no_tool_displace_none() -> None:
    """What a user wrote around the request is in the query of an agent too."""
    unknown = " ".join(f"unknown{number}x" for number in range(300))
    assert found(f"{unknown} repository") == ["git:delete_branch"]


def test_every_word_of_a_long_query_finds_names() -> None:
    """Of 256 different words, and of the beginnings of words too; a compound is a whole name however late it comes."""
    common = " ".join(f"common{number}x" for number in range(200))
    chatty = tuple(SearchDocument(f"tool_{number}", "s", "", common) for number in range(3))
    assert "clock:get_current_time" in found(f"{common} curr", (*ALL, *chatty))
    assert found(f"{common} delete_branch", (*ALL, *chatty))[0] == "git:delete_branch"
    beyond = " ".join(f"unknown{number}x" for number in range(256))
    assert found(f"{beyond} curr") == []


def test_the_description_of_a_parameter_finds_a_tool() -> None:
    """What a tool does is often said there alone."""
    documents = (*ALL, SearchDocument("run", "s", "", "Runs a job.", ("spec",), ("How to crop the picture.",)))
    assert found("crop pictures", documents) == ["s:run"]


def test_hostile_texts_can_be_indexed() -> None:
    """Names of 100,000 characters and half characters are searched like any others."""
    marks = "a" + "\u0301\u0323" * 50_000
    hostile = (SearchDocument("x" * 100_000, "s", "\0", "\ud800 delete", (marks,)), SearchDocument("***", "s", marks))
    assert found("delete", (*ALL, *hostile))[-1].endswith("x")


def test_words_are_split_at_punctuation_and_humps() -> None:
    """Case and width are folded, and a long run of letters is cut into pieces."""
    assert words("getHTTPResponse2 delete_file.md \uff26ile e\u0301té S3Bucket") == (
        "get", "http", "response2", "delete", "file", "md", "file", "été", "s3", "bucket",
    )  # fmt: skip
    assert [len(word) for word in words("x" * 150)] == [64, 64, 22]


VOCABULARY = st.sampled_from(
    ["delete", "file", "deleteFile", "read_file", "fi", "time", "the", "zone", "x", "文件", ""]
)
LONG = st.permutations([f"word{number}x" for number in range(40)]).map(" ".join)
TEXTS = st.lists(VOCABULARY, max_size=4).map(" ".join) | LONG
DOCUMENTS = st.lists(
    st.builds(
        SearchDocument,
        VOCABULARY,
        st.sampled_from("ab"),
        TEXTS,
        TEXTS,
        st.lists(VOCABULARY).map(tuple),
        st.lists(TEXTS, max_size=2).map(tuple),
    ),
    max_size=6,
)


@drawing(40)
@given(DOCUMENTS, TEXTS, st.randoms(), st.integers(1, 7))
def test_the_order_in_which_documents_come_never_matters(
    documents: list[SearchDocument], query: str, random: object, limit: int
) -> None:
    """Equal documents give equal hits and equal scores, and a limit takes the first of them (FR-002)."""
    shuffled = [*documents]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    whole = ToolIndex(documents).search(query)
    assert ToolIndex(shuffled).search(query) == whole
    assert ToolIndex(shuffled).search(query, limit) == whole[:limit]
    near = ToolIndex(shuffled).search(query, limit, only_near=True)
    assert near == whole[: len(near)] == ToolIndex(documents).search(query, limit, only_near=True)
    assert bool(near) is bool(whole)


@drawing(40)
@given(DOCUMENTS, DOCUMENTS, TEXTS)
def test_documents_of_another_index_change_nothing(
    seen: list[SearchDocument], hidden: list[SearchDocument], query: str
) -> None:
    """Tools that a caller may not see do not influence its scores (FR-002, FR-007)."""
    index = ToolIndex(seen)
    before = index.search(query)
    ToolIndex([*seen, *hidden]).search(query)
    assert index.search(query) == ToolIndex(seen).search(query) == before


@drawing(40)
@given(st.lists(DOCUMENTS, min_size=1, max_size=4), TEXTS, st.integers(1, 7))
def test_an_index_that_has_grown_gives_the_hits_of_one_built_whole(
    parts: list[list[SearchDocument]], query: str, limit: int
) -> None:
    """With equal scores, and the index that it grew from still gives its own (FR-002)."""
    indexes = [ToolIndex(parts[0])]
    for part in parts[1:]:
        indexes.append(indexes[-1].extend(part))
    for number, index in enumerate(indexes):
        whole = ToolIndex([document for part in parts[: number + 1] for document in part])
        assert index.search(query) == whole.search(query)
        assert index.search(query, limit) == whole.search(query, limit)


def test_an_index_grows_once() -> None:
    """Its parts then hold what the other one added."""
    index = ToolIndex(ALL[:2])
    assert len(index.extend(ALL[2:3])) == 3
    with pytest.raises(NotGrowing):
        index.extend(ALL[3:])
    assert [hit.document for hit in index.search("branch time")] == []


def test_an_index_that_is_kept_has_no_threads() -> None:
    """Neither after it was built nor after it has grown; other threads of this process may come meanwhile."""
    before = len(os.listdir("/proc/self/task"))
    kept = [ToolIndex(ALL[:2]) for _ in range(30)]
    grown = [index.extend(ALL[2:]) for index in kept]
    eventually(lambda: len(os.listdir("/proc/self/task")) < before + 30)
    assert {len(index.search("file")) for index in (*kept, *grown)} == {2}


@pytest.mark.anyio
async def test_documents_that_are_gone_influence_no_score_of_a_kept_index() -> None:
    """Two that grow from one index, and one from which a document is gone, are as if built whole (FR-002)."""
    indexes = Indexes()
    sets = [ALL[:1], ALL[1:3], ALL[:2], ALL[:3], (*ALL[:2], ALL[3]), ALL, ALL[1:], ALL[:2]]
    for documents in sets:
        index = await indexes.of(documents)
        for query in ("delete file", "time", "the branch of a file"):
            assert index.search(query) == ToolIndex(documents).search(query)
        assert await indexes.of(reversed(documents)) is index


@given(st.text(st.characters(), max_size=60) | st.text('"+-:^~*()[]{}\\/ANDORNOT ', max_size=60))
def test_no_text_is_too_strange_to_be_a_query(query: str) -> None:
    """A model writes the query: any text gets an answer."""
    hits = ToolIndex(ALL).search(query)
    assert len(hits) <= len(ALL)
    assert all(hit.score > 0 for hit in hits)


def test_a_thousand_tools_are_built_and_searched(note: Callable[[str], None]) -> None:
    """Ten thousand characters are just another query; the times are printed, and not asserted."""
    documents = [
        SearchDocument(f"{verb}_{noun}_{number}", f"server{number % 20}", f"{verb} a {noun}", f"{verb} {noun} " * 20)
        for number in range(100)
        for verb in ("create", "delete", "list", "read", "update")
        for noun in ("file", "issue")
    ]
    start = perf_counter()
    index = ToolIndex(documents)
    built = perf_counter()
    assert len(index.search("delete a file", 15)) == 15
    once = perf_counter()
    assert len(index.search("delete file " * 833)) == 600
    note(f"build {built - start:.3f} s, query {once - built:.4f} s, longest query {perf_counter() - once:.4f} s")


# IMPORT


VECTORS = json.loads((TESTS / "vectors/search.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("vector", VECTORS["vectors"], ids=lambda vector: vector["name"])
def test_every_language_finds_the_same(vector: dict[str, Any]) -> None:
    """The index of the Go client has the same vectors: what is found, and what of it is near the best hit."""
    index = ToolIndex(
        SearchDocument(
            each["name"],
            each["server"],
            "",
            each["description"],
            tuple(each["parameters"]),
            tuple(each["parameter_texts"]),
        )
        for each in VECTORS["documents"]
    )
    for only_near, wanted in ((False, "found"), (True, "near")):
        hits = index.search(vector["query"], only_near=only_near)
        assert [hit.document.qualified_name for hit in hits] == vector[wanted]
