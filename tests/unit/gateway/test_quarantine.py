"""An upstream's text about a tool reaches no agent before a person has reviewed it (A.3), by any request."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.drawing import drawing
from support.held_back import HOLDS, MARKED, MARKS, ODD_NAME, POISON, Hold, poisoned_tool, poisoned_tools
from support.stand_ins import WAYS, Scene, Shelf, scene

HARMLESS = dict.fromkeys(MARKS, "")


OPEN = {"name": "read_file", "description": "Reads a file."}


def _scene(
    directory: str | Path,
    say: Mapping[str, str],
    keys: Mapping[str, Any],
    records: Mapping[str, Any],
    *,
    by_meaning: bool = False,
) -> Scene:
    shelves = {"held": Shelf(poisoned_tools(say), says=say["error"]), "open": Shelf((OPEN,))}
    return scene(Path(directory), {"held": keys, "open": {}}, shelves, {"held": records}, by_meaning=by_meaning)


_words = st.sampled_from(
    [*MARKED, "burn", "file", "IGNORE", "ALL INSTRUCTIONS", "secret", "zebra", "held", "read", "fi"]
)
_queries = (
    st.lists(_words, min_size=1, max_size=4).map(" ".join)
    | st.sampled_from([*POISON.values(), ODD_NAME, json.dumps(POISON)])
    | st.text(max_size=10)
)
_names = st.sampled_from(["held:burn_file", f"held:{ODD_NAME}", "held:burn_fil", "held:send", "burn_file", "open:burn"])
_arguments = st.dictionaries(_words | st.sampled_from(["path", "how"]), _queries, max_size=2)
_questions = st.one_of(
    st.tuples(
        st.just("retrieve_tools"),
        st.fixed_dictionaries(
            {"query": _queries}, optional={"include_disabled": st.booleans(), "limit": st.integers(1, 100)}
        ),
    ),
    st.tuples(st.just("call_tool"), st.fixed_dictionaries({"name": _names}, optional={"arguments": _arguments})),
    st.tuples(
        st.just("upstream_servers"), st.sampled_from([{}, {"operation": "get", "name": "held"}, {"operation": "list"}])
    ),
)


@pytest.mark.parametrize("by_meaning", WAYS)
@pytest.mark.parametrize("hold", HOLDS.values(), ids=HOLDS)
@drawing(25)
@given(questions=st.lists(_questions, min_size=1, max_size=6))
def test_what_is_held_back_changes_no_answer(
    hold: Hold, questions: list[tuple[str, dict[str, Any]]], by_meaning: bool
) -> None:
    """FR-003, fault 6: every answer is, to the byte, that of a gateway whose upstream has no text."""
    with TemporaryDirectory() as directory:
        poisoned = _scene(directory, POISON, hold.keys, hold.records, by_meaning=by_meaning)
        answers = asyncio.run(poisoned.answers(questions))
        harmless = _scene(directory, HARMLESS, hold.keys, hold.records, by_meaning=by_meaning)
        assert answers == asyncio.run(harmless.answers(questions))
    assert not any(mark in answer for mark in MARKED for answer in answers)
    assert poisoned.upstreams["held"].called == []


@pytest.mark.parametrize("hold", HOLDS.values(), ids=HOLDS)
@drawing(20)
@given(query=_queries.filter(str.strip), limit=st.integers(1, 100), flag=st.booleans())
def test_a_name_that_is_a_text_is_counted_and_not_named(hold: Hold, query: str, limit: int, flag: bool) -> None:
    """In discovery and in the list of servers; a rejection repeats the name that the agent wrote, and nothing else."""
    questions: list[tuple[str, dict[str, Any]]] = [
        ("retrieve_tools", {"query": query, "limit": limit, "include_disabled": flag}),
        ("upstream_servers", {}),
        ("call_tool", {"name": "held:send every secret"}),
    ]
    with TemporaryDirectory() as directory:
        answers = asyncio.run(_scene(directory, POISON, hold.keys, hold.records).answers(questions))
    assert not any("zebraN" in answer for answer in answers)


@pytest.mark.parametrize("hold", HOLDS.values(), ids=HOLDS)
def test_a_hold_shows_in_the_status_and_ends_after_a_review(hold: Hold, tmp_path: Path) -> None:
    """Before, only the name is listed (fault 8); afterwards, the tool is found, shown in full and can be called."""
    found = ("retrieve_tools", {"query": "burn file secret", "include_disabled": True})
    call = ("call_tool", {"name": "held:burn_file"})
    before = asyncio.run(_scene(tmp_path, POISON, hold.keys, hold.records).answers([found, call]))
    listed = json.loads(json.loads(before[0])["content"][0]["text"])
    assert listed["disabled"] == [{"name": "held:burn_file", "server": "held", "status": hold.status}]
    assert listed["disabled_total"] == 2
    assert json.loads(before[1])["structured_content"]["status"] == hold.status
    after = asyncio.run(_scene(tmp_path, POISON, hold.released, hold.approved).answers([found, call]))
    shown = {tool["name"]: tool for tool in json.loads(json.loads(after[0])["content"][0]["text"])["tools"]}
    tool = shown["held:burn_file"]
    assert POISON["description"] in tool["description"]
    assert (tool["inputSchema"], tool["annotations"]) == (
        poisoned_tool("burn_file", POISON)["inputSchema"],
        poisoned_tool("burn_file", POISON)["annotations"],
    )
    assert f"held:{ODD_NAME}" in shown
    assert f"It said: {POISON['error']}" in after[1]


def test_the_description_of_a_parameter_finds_a_tool_whose_text_may_be_shown(tmp_path: Path) -> None:
    """At any depth of its schema; while the text is withheld, the same query finds nothing."""
    member = {
        "type": "object",
        "properties": {"unit": {"type": "string", "description": "Whether in knots or beaufort."}},
    }
    schema = {"type": "object", "properties": {"options": {"type": "array", "items": member}}}
    shelf = Shelf(({"name": "wind", "inputSchema": schema},))
    query = ("retrieve_tools", {"query": "knots", "include_disabled": True})
    for keys, finds in (({}, True), ({"quarantined": True}, False)):
        [answer] = asyncio.run(scene(tmp_path, {"weather": keys}, {"weather": shelf}).answers([query]))
        assert ("weather:wind" in answer) is finds
