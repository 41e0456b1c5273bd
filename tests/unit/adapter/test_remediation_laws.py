"""The words of a discovery answer, over policies and drawn inventories: no text names a switch that does nothing."""

from __future__ import annotations

import json
import re
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callability.adapter import ALL_SERVERS, JudgedTool, Judgement, judge
from callability.kernel.policy import LocalPolicy, read
from callability.v1 import callability_service_pb2 as pb
from support.bundles import POLICIES, DrawnRequests, bundle_of, policy_of
from support.drawing import drawing
from support.judging import answered
from support.service_stub import ServiceStub

_NAME = r'`[^`]+`|"(?:[^"\\]|\\.)*"'
_INTRODUCTION = re.compile(rf"(?:^| )For ((?:{_NAME})(?:, (?:{_NAME}))*): ")
_TOOLS = 6


@cache
def _policy(name: str) -> LocalPolicy:
    return read(bundle_of(name))


@cache
def _service(name: str) -> ServiceStub:
    return ServiceStub(policy_of(name))


def _judged(name: str, seed: int) -> tuple[Judgement, dict[str, str]]:
    """Return a drawn inventory as a policy judges it, and the rule of each tool."""
    drawn = DrawnRequests(_policy(name).callability, seed)
    one = drawn.check_tool()
    tools = [drawn.check_tool() for _ in range(_TOOLS)]
    request = pb.CheckToolsRequest(agent=one.agent if one.HasField("agent") else None)
    for number, each in enumerate(tools):
        # Two tools of one server and name would be one.
        named = pb.Tool(name=each.tool, facts=each.tool_facts)
        server = pb.ServerTools(name=f"{each.server}{number}", facts=each.server_facts, tools=[named])
        request.servers.append(server)
    response = answered(request, _service(name))
    judgement = judge(request, response, visible=ALL_SERVERS)
    rules = [result.verdict.rule for server in response.servers for result in server.results]
    return judgement, {tool.name: rule for tool, rule in zip(judgement.tools, rules, strict=True)}


def _by_tool(text: str, tools: tuple[JudgedTool, ...]) -> dict[str, str]:
    """Return the part of a remediation that is about each of its tools."""
    parts = _INTRODUCTION.split(text)
    if len(parts) == 1:
        return {tool.name: text for tool in tools}
    found = {}
    for names, part in zip(parts[1::2], parts[2::2], strict=True):
        for name in re.findall(_NAME, names):
            found[json.loads(name) if name.startswith('"') else name[1:-1]] = part
    return found


@pytest.mark.parametrize("name", POLICIES)
@drawing(60)
@given(seed=st.integers(0, 2**32 - 1))
def test_no_remediation_names_an_action_that_changes_no_fact_that_locks_one_of_its_tools(name: str, seed: int) -> None:
    """Each text is true for every tool that it is for (FR-005)."""
    policy, (judgement, rule_of) = _policy(name), _judged(name, seed)
    rules = {rule.id: rule for rule in policy.callability.rules}
    phrases = {action.name: f"ACT<{action.name}>" for action in policy.actions}
    shown = judgement.locked
    for status, text in judgement.remediation(shown, phrases).items():
        those = tuple(tool for tool in shown if tool.status == status)
        about = _by_tool(text, those)
        assert about.keys() == {tool.name for tool in those}
        for tool in those:
            assert about[tool.name] == judgement.remediation([tool], phrases)[status]
            if tool.undetermined:
                continue
            reads = rules[rule_of[tool.name]].reads
            for action in policy.actions:
                changes = action.fact is None or action.fact in reads
                changes |= action.labels and any(".label." in fact for fact in reads)
                assert changes or f"ACT<{action.name}>" not in about[tool.name], (tool, action)
