"""The whole table of the shipped policy, compared with a list that was written by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import product
from typing import Any

import grpc
from google.protobuf import json_format

from callability.compiler.policy import load
from callability.compiler.questions import CALLABILITY
from callability.contract.vocabulary import ToolStatus
from callability.kernel.calls import LocalCalls
from callability.kernel.conditions import decide
from callability.kernel.policy import read
from callability.v1 import callability_service_pb2 as pb
from callability.v1 import verdict_pb2
from callability.v1.callability_service_pb2_grpc import CallabilityServiceStub
from support.bundles import bundle_of
from support.checkout import POLICY, VECTORS

PATTERNS = json.loads((VECTORS / "matrix/patterns.json").read_text())


def _joined(parts: list[Mapping[str, Any]]) -> dict[str, Any]:
    joined: dict[str, dict[str, Any]] = {"serverFacts": {}, "toolFacts": {}}
    for part in parts:
        for group, facts in part.items():
            joined[group] |= facts
    return joined


def _only(rows: list[dict[str, Any]], states: Mapping[str, str]) -> dict[str, Any]:
    [row] = _matching(rows, states)
    return row


def _matching(rows: list[dict[str, Any]], states: Mapping[str, str]) -> list[dict[str, Any]]:
    return [row for row in rows if all(states[column] in wanted for column, wanted in row["when"].items())]


def _matrix() -> list[tuple[pb.CheckToolRequest, dict[str, Any]]]:
    columns = PATTERNS["states"]
    cases = []
    for states in product(*columns.values()):
        named = dict(zip(columns, states, strict=True))
        facts = _joined([columns[column][state] for column, state in named.items()])
        request = json_format.ParseDict({"server": "s", "tool": "t", **facts}, pb.CheckToolRequest())
        expected = {**_only(PATTERNS["verdicts"], named), **_only(PATTERNS["withheld"], named)}
        later = _matching(PATTERNS["later"], named)
        assert len(later) <= expected["undetermined"]
        if expected["undetermined"]:
            expected["retry"] = "RETRY_LATER" if later else "RETRY_NEVER"
        cases.append((request, expected))
    return cases


def _as_expected(verdict: Any, expected: Mapping[str, Any]) -> bool:
    found = json_format.MessageToDict(verdict, always_print_fields_with_no_presence=True)
    status = ToolStatus(expected["status"].removeprefix("TOOL_STATUS_").lower())
    fixed = {"liftedBy": f"LIFTED_BY_{status.lifted_by.upper()}", "retry": f"RETRY_{status.retry.upper()}"}
    return found == fixed | {key: value for key, value in expected.items() if key != "when"}


def test_the_matrix_has_every_combination_of_the_facts() -> None:
    """378 combinations, twice for `caller.refuses` (A.2, FR-004), each matched by one row."""
    assert len(_matrix()) == 756


def test_a_later_try_may_succeed_in_few_of_the_undetermined_combinations() -> None:
    """In all others, a fact that is known locks the tool whatever the unknown ones are (A.1)."""
    undetermined = [expected["retry"] for _, expected in _matrix() if expected["undetermined"]]
    assert (len(undetermined), undetermined.count("RETRY_LATER")) == (376, 46)


def test_every_combination_is_answered_on_the_wire_as_the_list_says(channel: grpc.Channel) -> None:
    """One call for each combination, and one call for all of them (FR-004)."""
    stub = CallabilityServiceStub(channel)
    cases = _matrix()
    assert [case for case in cases if not _as_expected(stub.CheckTool(case[0]).verdict, case[1])] == []
    servers = [
        pb.ServerTools(name="s", facts=one.server_facts, tools=[pb.Tool(name="t", facts=one.tool_facts)])
        for one, _ in cases
    ]
    together = stub.CheckTools(pb.CheckToolsRequest(servers=servers)).servers
    results = [server.results[0].verdict for server in together]
    assert [one for one, verdict in zip(cases, results, strict=True) if not _as_expected(verdict, one[1])] == []


def test_every_combination_is_answered_on_the_wire_as_the_reference_says(channel: grpc.Channel) -> None:
    """The reference evaluator, over the facts that the service reads, and the server agree."""
    stub = CallabilityServiceStub(channel)
    proved = load(POLICY).rule_sets["callability"]
    rules, calls = proved.rule_set.rules, LocalCalls(read(bundle_of("shipped")))
    differences = []
    for request, _ in _matrix():
        request_ = pb.ExplainToolRequest.FromString(request.SerializeToString())
        facts = {**CALLABILITY.open_facts, **calls.encoded.tools.read(request_).values}
        decision = decide(proved.rule_set.conditions, facts)
        verdict = stub.CheckTool(request).verdict
        status = CALLABILITY.undetermined if decision.undetermined else rules[decision.rule].status
        expected = (f"TOOL_STATUS_{status.upper()}", rules[decision.rule].id, decision.undetermined)
        if (verdict_pb2.ToolStatus.Name(verdict.status), verdict.rule, verdict.undetermined) != expected:
            differences.append((facts, expected, verdict))
    assert differences == []
