"""What a gateway keeps between answers changes none: judgements by revision, and search indexes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callability.client.judgements import Judgements
from callability.gateway.meaning import Indexes
from callability.gateway.tools.decisions import Decisions
from callability.v1 import callability_service_pb2 as pb
from support.drawing import drawing
from support.local_policy import local_policy
from support.stand_ins import WAYS, Scene, Shelf, scene

NAMES = ("read_file", "write_file", "find_time", "delete_branch")
_tool = st.builds(
    lambda name, text: {"name": name, "description": text},
    st.sampled_from(NAMES),
    st.sampled_from(["Reads a file.", "Deletes the branch, and the file.", "Finds the time."]),
)
_shelves = st.lists(_tool, max_size=4, unique_by=lambda tool: tool["name"]).map(lambda tools: Shelf(tuple(tools)))
_entry = st.sampled_from(
    [{}, {}, {"enabled": False}, {"quarantined": True}, {"trust": "manual"}, {"disabled_tools": ["read_file"]}]
)
_record = st.sampled_from([{}, {"disabled": True}, {"status": "pending"}, {"status": "changed"}])
_state = st.fixed_dictionaries(
    {
        "servers": st.fixed_dictionaries({"a": _entry, "b": _entry}),
        "approvals": st.none()
        | st.dictionaries(st.sampled_from("ab"), st.dictionaries(st.sampled_from(NAMES), _record, max_size=3)),
        "visible": st.none() | st.sampled_from([("a",), ("b",), ("a", "b"), ()]),
    }
)
_SEARCHES: list[tuple[str, dict[str, Any]]] = [
    ("retrieve_tools", {"query": query, "include_disabled": flag})
    for query in ("the file", "delete branch", "time")
    for flag in (False, True)
]
QUESTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    *_SEARCHES,
    ("upstream_servers", {}),
    ("call_tool", {"name": "a:read_fil"}),
)


@pytest.mark.parametrize("by_meaning", WAYS)
@drawing(40)
@given(
    shelves=st.lists(st.fixed_dictionaries({"a": _shelves, "b": _shelves}), min_size=2, max_size=2),
    states=st.lists(st.tuples(_state, st.integers(0, 1)), min_size=2, max_size=6),
)
def test_an_answer_of_a_gateway_that_has_seen_other_states_is_that_of_a_new_one(
    shelves: list[dict[str, Shelf]], states: list[tuple[dict[str, Any], int]], by_meaning: bool
) -> None:
    """To the byte, whatever was approved, locked, listed and asked before, and by whom (FR-002, FR-007)."""
    kept = Judgements(), Indexes(by_meaning=by_meaning)

    async def compare(directory: Path) -> None:
        for state, listed in states:
            seen = _scene(directory, state, shelves[listed], kept)
            new = _scene(directory, state, shelves[listed], (Judgements(), Indexes(by_meaning=by_meaning)))
            assert await seen.answers(QUESTIONS) == await new.answers(QUESTIONS)
            other = _scene(directory, state, shelves[1 - listed], (Judgements(), Indexes(by_meaning=by_meaning)))
            for name, upstream in seen.upstreams.items():
                upstream.tools = other.upstreams[name].tools
            assert await seen.answers(QUESTIONS) == await other.answers(QUESTIONS)

    with TemporaryDirectory() as directory:
        asyncio.run(compare(Path(directory)))


def _scene(
    directory: Path, state: Mapping[str, Any], shelves: Mapping[str, Shelf], kept: tuple[Judgements, Indexes]
) -> Scene:
    return scene(directory, state["servers"], shelves, state["approvals"], visible=state["visible"], kept=kept)


class _Counting:
    """Counts the tools that are decided."""

    def __init__(self) -> None:
        self._policy = local_policy()
        self.decided: list[int] = []

    async def check_tools(self, request: pb.CheckToolsRequest) -> pb.CheckToolsResponse:
        """Decide."""
        self.decided.append(sum(len(server.tools) for server in request.servers))
        return await self._policy.check_tools(request)


@pytest.mark.anyio
async def test_a_tool_is_decided_again_only_if_something_changed(tmp_path: Path) -> None:
    """A second search asks for the revision alone."""
    policy: Any = _Counting()
    shelves = {"a": Shelf(tuple({"name": name} for name in NAMES))}
    kept = Judgements(), Indexes()
    for number, approvals in enumerate(({}, {"a": {"read_file": {"disabled": True}}})):
        built = scene(tmp_path, {"a": {}}, shelves, approvals, kept=kept)
        decisions = Decisions(policy, judgements=kept[0])
        inventory = built.gateway._inventory
        first = await decisions.judge(inventory.known_servers().values())
        assert await decisions.judge(inventory.known_servers().values()) is first
        assert policy.decided == [[4, 0], [4, 0, 1, 0]][number]
