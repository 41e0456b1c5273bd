"""The adapter as a library: laws of discovery and counts for every inventory, query and limit."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from callability.adapter import (
    ALL_SERVERS,
    JudgedTool,
    Judgement,
    ToolText,
    discovery,
    judge,
    tool_counts,
    tool_result,
)
from callability.contract.vocabulary import ToolStatus
from support.judging import (
    DENIED,
    FREE,
    OPEN,
    PHRASES,
    SWITCHED_OFF,
    Servers,
    answered,
    judgement_of,
    matrix,
    request_of,
    texts_of,
)

_WORDS = ("file", "copy", "git", "branch")
_names = st.lists(st.sampled_from(_WORDS), min_size=1, max_size=3).map("_".join) | st.text(max_size=12).map(
    "file {}".format
)
_tools = st.dictionaries(
    _names, st.sampled_from([FREE, DENIED, SWITCHED_OFF, *(tool for _, tool in matrix())]), max_size=8
)
_server_facts = st.sampled_from([OPEN, OPEN, *(server for server, _ in matrix())]) | st.just(OPEN)
_inventories = st.dictionaries(st.sampled_from(("git", "files", "a.b")), st.tuples(_server_facts, _tools), max_size=3)
_queries = st.lists(st.sampled_from((*_WORDS, "a", "the", "fi", "none")), min_size=1, max_size=4).map(" ".join)
_limits = st.integers(min_value=1, max_value=100) | st.integers(min_value=1, max_value=3)


def _hits(tools: Iterable[JudgedTool], query: str) -> list[str]:
    """A search over the given tools only, in an order that differs from that of their names."""
    return sorted((tool.name for tool in tools if set(query.split()) & set(re.split("[_ :]", tool.name))), reverse=True)


def _searched(judgement: Judgement, query: str, limit: int, *, include_disabled: bool = False) -> dict[str, Any]:
    readable = [tool for tool in judgement.locked if not tool.withhold_text]
    return discovery(
        judgement,
        query,
        found=_hits(judgement.callable, query),
        found_locked=_hits(readable, query),
        texts=texts_of(judgement),
        phrases=PHRASES,
        limit=limit,
        include_disabled=include_disabled,
    )


@given(inventory=_inventories, query=_queries, limit=_limits)
def test_without_the_flag_the_answer_is_as_if_locked_tools_did_not_exist(
    inventory: Servers, query: str, limit: int
) -> None:
    """FR-002, SC-001: byte for byte, except FR-009's notice, which appears only if nothing callable is found."""
    judgement = judgement_of(inventory)
    found = _searched(judgement, query, limit)
    notice = found.pop("notice", None)
    alone = _searched(replace(judgement, tools=judgement.callable), query, limit)
    assert tool_result(found) == tool_result(alone)
    assert json.dumps(found) == json.dumps(alone)
    assert notice is None or found["total"] == 0


@given(inventory=_inventories, query=_queries, limit=_limits)
def test_the_flag_adds_the_locked_tools_and_changes_nothing_else(inventory: Servers, query: str, limit: int) -> None:
    """FR-005, FR-006, FR-009, SC-004 and SC-006 at once; the notice has the number of tools that the flag finds."""
    judgement = judgement_of(inventory)
    without = _searched(judgement, query, limit)
    found = _searched(judgement, query, limit, include_disabled=True)
    assert {key: found[key] for key in ("tools", "total")} == {key: without[key] for key in ("tools", "total")}
    assert found["total"] == len(found["tools"]) <= limit
    shown = found.get("disabled", [])
    assert len(shown) <= min(limit, 10)
    statuses = {entry["status"] for entry in shown}
    assert list(found.get("remediation", {})) == [status for status in ToolStatus if status in statuses]
    total = found.get("disabled_total", len(shown))
    assert total > len(shown) or "disabled_total" not in found
    notice = re.match(r"\d+", without.get("notice", ""))
    if not found["total"]:
        assert int(notice[0] if notice else 0) == total


@given(
    inventory=_inventories,
    query=_queries,
    limit=_limits,
    flag=st.booleans(),
    scope=st.sets(st.sampled_from(("git", "files"))),
)
def test_a_server_out_of_scope_does_not_exist(
    inventory: Servers, query: str, limit: int, scope: set[str], *, flag: bool
) -> None:
    """FR-007: to the byte."""
    request = request_of(inventory)
    seen = judge(request, answered(request), visible=scope)
    alone = judgement_of({name: server for name, server in inventory.items() if name in scope})
    answers = [_searched(each, query, limit, include_disabled=flag) for each in (seen, alone)]
    assert json.dumps(answers[0]) == json.dumps(answers[1])


@given(inventory=_inventories, query=_queries, limit=_limits, flag=st.booleans())
def test_a_text_that_is_withheld_is_never_shown(inventory: Servers, query: str, limit: int, *, flag: bool) -> None:
    """A.3, even if the proxy passes it in and its search reads it."""
    judgement = judgement_of(inventory)
    texts = {tool.name: ToolText("POISON") for tool in judgement.tools if tool.withhold_text}
    everything = [tool.name for tool in judgement.tools]
    found = discovery(
        judgement,
        query,
        found=everything,
        found_locked=everything,
        texts=texts,
        phrases=PHRASES,
        limit=limit,
        include_disabled=flag,
    )
    assert "POISON" not in json.dumps(found)


@given(inventory=_inventories, query=_queries, limit=_limits, order=st.randoms(use_true_random=False))
def test_the_order_of_the_inventory_does_not_matter(
    inventory: dict[str, tuple[dict[str, Any], dict[str, Any]]], query: str, limit: int, order: Random
) -> None:
    """Neither that of the servers nor that of their tools."""
    other = {}
    for name in order.sample(list(inventory), len(inventory)):
        facts, tools = inventory[name]
        other[name] = (facts, {tool: tools[tool] for tool in order.sample(list(tools), len(tools))})
    answers = [_searched(judgement_of(each), query, limit, include_disabled=True) for each in (inventory, other)]
    assert json.dumps(answers[0]) == json.dumps(answers[1])


@given(inventory=_inventories)
def test_each_tool_is_counted_once(inventory: Servers) -> None:
    """FR-010: the counts of a server add up to its tools, and agree with what discovery may list."""
    request = request_of(inventory)
    response = answered(request)
    judgement = judge(request, response, visible=ALL_SERVERS)
    counted = tool_counts(judgement)
    for sent, results in zip(request.servers, response.servers, strict=True):
        counts = counted.get(sent.name)
        of_server = Counter(str(tool.status) for tool in judgement.tools if tool.server == sent.name)
        assert dict(counts or {"callable": len(sent.tools)}) == {"callable": 0} | of_server
        assert sum(count.count for count in results.counts) == of_server.total()
