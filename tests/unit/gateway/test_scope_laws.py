"""For an agent, a server outside its scope does not exist (FR-007), for any config and any request."""

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

from callability.contract.vocabulary import LoadStatus
from support.drawing import drawing
from support.stand_ins import WAYS, Scene, Shelf, Tools, scene

SERVERS = ("files", "files2", "git", "mail", "a.b")
TOOLS = ("read_file", "write_file", "delete_file", "read_mail", "log", "Log", "file")
TEXTS = ("Reads a file.", "Writes a mail to the git log.", "Deletes whatever is read.", "")
WORDS = ("read", "file", "fi", "mail", "log", "delete", "git", "a", "the", "nothing", *SERVERS, *TOOLS)

_names = st.sampled_from(TOOLS)
_tools = st.lists(st.tuples(_names, st.sampled_from(TEXTS)), max_size=5, unique_by=lambda pair: pair[0]).map(
    lambda pairs: tuple({"name": name, **({"description": text} if text else {})} for name, text in pairs)
)
_shelves = st.builds(
    Shelf,
    _tools,
    state=st.sampled_from(["connected", "connected", "failed"]),
    says=st.sampled_from(["", "", "no"]),
    load=st.sampled_from([LoadStatus.TRANSIENT, LoadStatus.DENIED, LoadStatus.PERMANENT]),
)
_lists = st.fixed_dictionaries({"enabled_tools": st.lists(_names, min_size=1, max_size=3)}) | st.fixed_dictionaries(
    {}, optional={"disabled_tools": st.lists(_names, max_size=3)}
)
_switches = st.fixed_dictionaries(
    {},
    optional={
        "enabled": st.sampled_from([True, True, False]),
        "quarantined": st.sampled_from([False, False, True]),
        "trust": st.sampled_from(["auto", "manual"]),
    },
)
_entries = st.builds(lambda lists, switches: {**lists, **switches}, _lists, _switches)
_records = st.fixed_dictionaries(
    {},
    optional={
        "disabled": st.sampled_from([True, False, "no"]),
        "status": st.sampled_from(["approved", "pending", "changed", "what"]),
        "sha256": st.just("0" * 64),
    },
)
_approvals = st.none() | st.dictionaries(
    st.sampled_from(SERVERS), st.dictionaries(_names, _records, max_size=3) | st.none(), max_size=4
)
_worlds = st.dictionaries(st.sampled_from(SERVERS), st.tuples(_entries, _shelves), min_size=1)
_queries = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join) | st.text(max_size=8)
_servers = st.sampled_from((*SERVERS, "file", "gti", ""))
_questions = st.one_of(
    st.tuples(
        st.just("retrieve_tools"),
        st.fixed_dictionaries(
            {"query": _queries},
            optional={
                "limit": st.sampled_from([1, 2, 5, 100, 0]),
                "include_disabled": st.booleans(),
                "schemas": st.sampled_from(["full", "first", "none", "some"]),
            },
        ),
    ),
    st.tuples(
        st.just("call_tool"),
        st.builds(
            lambda server, tool: {"name": f"{server}:{tool}", "arguments": {"x": 1}},
            _servers,
            st.sampled_from((*TOOLS, "raed_file", "")),
        ),
    ),
    st.tuples(
        st.just("upstream_servers"),
        st.builds(lambda name: {"operation": "get", "name": name}, _servers)
        | st.sampled_from([{}, {"operation": "list"}]),
    ),
)
World = Mapping[str, tuple[Mapping[str, Any], Shelf]]


def _scene(
    directory: str,
    world: World,
    approvals: Mapping[str, Any] | None,
    *,
    visible: tuple[str, ...] | None = None,
    by_meaning: bool = False,
) -> Scene:
    entries = {name: entry for name, (entry, _) in world.items()}
    shelves = {name: shelf for name, (_, shelf) in world.items()}
    return scene(Path(directory), entries, shelves, approvals, visible=visible, by_meaning=by_meaning)


@pytest.mark.parametrize("by_meaning", WAYS)
@drawing(200)
@given(
    world=_worlds,
    approvals=_approvals,
    scope=st.sets(st.sampled_from(SERVERS)),
    questions=st.lists(_questions, min_size=1, max_size=6),
)
def test_every_answer_to_an_agent_is_that_of_a_gateway_without_what_is_out_of_its_scope(
    world: World,
    approvals: Mapping[str, Any] | None,
    scope: set[str],
    questions: list[tuple[str, dict[str, Any]]],
    by_meaning: bool,
) -> None:
    """To the byte: tools, locks, notices, loads, counts, remediation, near names, refusals (FR-007, fault 9)."""
    visible = tuple(name for name in world if name in scope)
    with TemporaryDirectory() as directory:
        scoped = _scene(directory, world, approvals, visible=visible, by_meaning=by_meaning)
        scoped_answers = asyncio.run(scoped.answers(questions))
        alone = _scene(directory, {name: world[name] for name in visible}, approvals, by_meaning=by_meaning)
        assert scoped_answers == asyncio.run(alone.answers(questions))
    assert all(not upstream.called for name, upstream in scoped.upstreams.items() if name not in visible)


@given(world=_worlds, name=_names, limit=st.integers(1, 100), flag=st.booleans())
def test_an_agent_without_servers_finds_that_there_is_nothing(world: World, name: str, limit: int, flag: bool) -> None:
    """Not even a notice, and a call of an existing tool is answered like a call of an unknown one (FR-007)."""
    questions: list[tuple[str, dict[str, Any]]] = [
        ("retrieve_tools", {"query": name, "limit": limit, "include_disabled": flag}),
        ("upstream_servers", {}),
        *(("call_tool", {"name": f"{server}:{name}"}) for server in world),
    ]
    with TemporaryDirectory() as directory:
        found, servers, *calls = asyncio.run(_scene(directory, world, None, visible=()).answers(questions))
    assert json.loads(json.loads(found)["content"][0]["text"]) == {"tools": [], "total": 0}
    assert '"structured_content":{"servers":[]}' in servers
    assert all("there is no tool" in call and "Similar names" not in call for call in calls)


def test_what_an_agent_sees_is_what_is_in_its_scope(tmp_path: Path) -> None:
    """The laws above are not about empty answers: tools in scope are found, called and counted (FR-007)."""
    tools: Tools = ({"name": "read_file", "description": "Reads a file."},)
    entries: dict[str, dict[str, Any]] = {"files": {}, "git": {}, "mail": {"quarantined": True}}
    all_of_it = scene(tmp_path, entries, dict.fromkeys(entries, Shelf(tools)), visible=("git", "mail"))
    found, called, unknown, listed = asyncio.run(
        all_of_it.answers(
            [
                ("retrieve_tools", {"query": "read file", "include_disabled": True}),
                ("call_tool", {"name": "git:read_file"}),
                ("call_tool", {"name": "files:read_file"}),
                ("upstream_servers", {}),
            ]
        )
    )
    assert "git:read_file" in found
    assert "mail:read_file" in found
    assert "git did read_file" in called
    assert 'there is no tool \\"files:read_file\\". Similar names: \\"git:read_file\\"' in unknown
    assert '"server_quarantined":1' in listed
    assert "files:" not in found + called + listed


def test_the_cut_is_about_callable_tools_alone(tmp_path: Path) -> None:
    """Hits far below the best callable one are left out; locked ones are all listed and counted (FR-006)."""
    names = ("delete_file", *(f"other_{number}" for number in range(6)))
    shelf = Shelf(tuple({"name": name, "description": "A file."} for name in names))
    entries: dict[str, dict[str, Any]] = {"open": {}, "locked": {"disabled_tools": list(names)}}
    query = ("retrieve_tools", {"query": "delete_file", "limit": 5, "include_disabled": True})
    both = scene(tmp_path, entries, dict.fromkeys(entries, shelf))
    [answer] = asyncio.run(both.answers([query]))
    found = json.loads(json.loads(answer)["content"][0]["text"])
    assert [tool["name"] for tool in found["tools"]] == ["open:delete_file"]
    assert (len(found["disabled"]), found["disabled_total"]) == (5, 7)
