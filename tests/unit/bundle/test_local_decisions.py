"""A policy decides from its bundle as the service decides by its rule files: message for message."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from google.protobuf.message import Message

from callability.bundle import LocalCalls, read
from callability.bundle.envelope import enveloped
from callability.bundling.payload import payload_of
from callability.policy.deciding.evaluation import Engine
from callability.policy.loading import load
from callability.service.calls.callability_calls import CallabilityCalls
from callability.v1 import callability_service_pb2 as pb
from support.bundles import POLICIES, DrawnRequests, bundle_of, compared_with_the_reference, policy_of
from support.drawing import share
from support.policies import policy_text, write_policy

Response = TypeVar("Response", bound=Message)
_RUNNERS: list[asyncio.Runner] = []
TOOLS = 1_000
"""Requests about one tool that are drawn for each policy."""


@pytest.fixture(scope="module", autouse=True)
def _loop() -> Iterator[None]:
    """One event loop for every call: a loop of its own would take longer than the call."""
    with asyncio.Runner() as runner:
        _RUNNERS.append(runner)
        yield
        _RUNNERS.clear()


def _result(response: type[Response], answer: Awaitable[bytes]) -> Response:
    async def awaited() -> bytes:
        return await answer

    return response.FromString(_RUNNERS[0].run(awaited()))


@pytest.mark.parametrize("name", POLICIES)
def test_every_call_about_a_tool_is_answered_as_by_the_service(name: str) -> None:
    """Verdict, rule, unread facts, withheld text, words, trials and path."""
    local, service = LocalCalls(read(bundle_of(name))), CallabilityCalls(policy_of(name))
    drawn = DrawnRequests(local.policy.callability, seed=1)
    rules = set()
    for _ in range(share(TOOLS)):
        request = drawn.check_tool()
        answer = local.check_tool(request)
        assert answer == _result(pb.CheckToolResponse, service.check_tool(request.SerializeToString())), request
        explained = pb.ExplainToolRequest.FromString(request.SerializeToString())
        expected = _result(pb.ExplainToolResponse, service.explain_tool(request.SerializeToString()))
        assert local.explain_tool(explained) == expected, request
        rules.add((answer.verdict.rule, answer.verdict.undetermined))
    if share(TOOLS) >= TOOLS:
        # With fewer requests, a rule that many others stand above may not be reached.
        assert {rule for rule, _ in rules} == {rule.id for rule in local.policy.callability.rules}


@pytest.mark.parametrize("name", POLICIES)
def test_a_batch_is_answered_as_by_the_service(name: str) -> None:
    """With the words of each status and rule that occurs, and the counts; a bad name is an error of its item."""
    local, service = LocalCalls(read(bundle_of(name))), CallabilityCalls(policy_of(name))
    drawn = DrawnRequests(local.policy.callability, seed=2)
    for _ in range(share(30)):
        request = pb.CheckToolsRequest(agent=drawn.agent())
        for server in ("one", "two", "", "x" * 513):
            tools = [pb.Tool(name=tool, facts=drawn.tool_facts()) for tool in ("a", "b", "", "ü" * 257, "unknown")]
            request.servers.append(pb.ServerTools(name=server, facts=drawn.server_facts(), tools=tools))
        expected = _result(pb.CheckToolsResponse, service.check_tools(request.SerializeToString()))
        assert local.check_tools(request) == expected


def test_loads_and_enables_are_classified_as_by_the_service() -> None:
    """With their words, whatever a caller sends."""
    local, service = LocalCalls(read(bundle_of("shipped"))), CallabilityCalls(policy_of("shipped"))
    drawn = DrawnRequests(local.policy.callability, seed=3)
    for _ in range(share(1_000)):
        load, enable = drawn.load(), drawn.enable()
        expected = _result(pb.ClassifyLoadResponse, service.classify_load(load.SerializeToString()))
        assert local.classify_load(load) == expected, load
        ended = _result(pb.ClassifyEnableResponse, service.classify_enable(enable.SerializeToString()))
        assert local.classify_enable(enable) == ended, enable


def test_a_policy_without_words_for_statuses_that_no_rule_gives_has_a_bundle(tmp_path: Path) -> None:
    """It says what it has to say; the words of other statuses are none."""
    policy = load(write_policy(tmp_path, policy_text({})), engine=Engine.REFERENCE)
    local = LocalCalls(read(enveloped(payload_of(policy))))
    answer = local.check_tool(pb.CheckToolRequest(server="s", tool="t"))
    assert (answer.verdict.rule, answer.words.rejection) == ("one", "{check_logs}")
    assert local.policy.load_outcome.status_words.keys() == {"permanent"}


@pytest.mark.parametrize("name", POLICIES)
def test_every_decision_is_that_of_the_reference_evaluator(name: str) -> None:
    """At drawn points of each rule set: status, rule, withheld text, and unread facts that are unknown."""
    differences = compared_with_the_reference(name, share(4_000))
    assert differences == []
