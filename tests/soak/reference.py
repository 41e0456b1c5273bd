"""What a correct answer is: for each policy that is served, the reference evaluator's verdict about each request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from google.protobuf.message import Message

from bench.workload import about_many, about_one_each
from callability.compiler.policy import rules_in
from callability.compiler.rule_set import RuleSet
from callability.contract.vocabulary import UNKNOWN
from callability.files.policy_source import source_in
from callability.kernel.conditions import decide
from callability.v1 import callability_service_pb2 as pb
from callability.v1 import facts_pb2, verdict_pb2

TOOLS = 10_000
"""Tools of a batch."""
_REQUESTS = 500
_REVIEWS = {
    facts_pb2.APPROVAL_STATUS_APPROVED: "approved",
    facts_pb2.APPROVAL_STATUS_PENDING: "pending",
    facts_pb2.APPROVAL_STATUS_CHANGED: "changed",
}

Verdict = tuple[int, str, bool, bool]
"""The status as a number of the contract, the rule, whether it is undetermined, and whether the text is withheld."""


@dataclass(frozen=True, slots=True)
class Question:
    """A request, and the correct verdicts about its tools by the revision of the policy that decides."""

    request: pb.CheckToolRequest | pb.CheckToolsRequest
    expected: Mapping[str, Sequence[Verdict]]

    def fault(self, response: pb.CheckToolResponse | pb.CheckToolsResponse) -> str:
        """Return what is wrong with an answer; nothing if it is correct."""
        expected = self.expected.get(response.revision)
        if expected is None:
            return f"revision {response.revision} was never to be served"
        given = verdicts_in(response)
        if len(given) != len(expected):
            return f"{len(given)} verdicts about {len(expected)} tools"
        wrong = [(one, other) for one, other in zip(given, expected, strict=True) if one != other]
        return f"{len(wrong)} wrong verdicts, such as {wrong[0][0]} for {wrong[0][1]}" if wrong else ""


@dataclass(frozen=True, slots=True)
class Questions:
    """What callers ask: about one tool each, and about many."""

    single: Sequence[Question]
    batch: Question


def verdicts_in(response: pb.CheckToolResponse | pb.CheckToolsResponse) -> list[Verdict]:
    """Return the verdicts of an answer, in the order of the request. An error of a tool has no status and no rule."""
    if isinstance(response, pb.CheckToolResponse):
        return [_verdict(response.verdict)]
    return [_verdict(result.verdict) for server in response.servers for result in server.results]


def _verdict(verdict: verdict_pb2.ToolVerdict) -> Verdict:
    return verdict.status, verdict.rule, verdict.undetermined, verdict.withhold_text


def questions(policies: Sequence[Path], tools: int = TOOLS) -> Questions:
    """Return requests about so many tools, with the correct verdicts by each of the policies in some directories."""
    rules = {source_in(directory).revision: _rules(directory) for directory in policies}
    single = [
        Question(request, {revision: [_decided(request, each)] for revision, each in rules.items()})
        for request in islice(about_one_each(tools), 0, tools, max(1, tools // _REQUESTS))
    ]
    many = about_many(tools)
    return Questions(single, Question(many, {revision: _decided_all(many, each) for revision, each in rules.items()}))


def _rules(directory: Path) -> RuleSet:
    check = rules_in(directory)
    if check.policy is None:
        raise ValueError("\n".join(map(str, check.findings)))
    return check.policy.rule_sets["callability"].rule_set


def _decided_all(request: pb.CheckToolsRequest, rules: RuleSet) -> list[Verdict]:
    singles = (
        pb.CheckToolRequest(
            agent=request.agent if request.HasField("agent") else None,
            server=server.name,
            server_facts=server.facts if server.HasField("facts") else None,
            tool=tool.name,
            tool_facts=tool.facts if tool.HasField("facts") else None,
        )
        for server in request.servers
        for tool in server.tools
    )
    return [_decided(single, rules) for single in singles]


def _decided(request: pb.CheckToolRequest, rules: RuleSet) -> Verdict:
    facts = _facts(request)
    decision = decide(rules.conditions, facts)
    status = rules.question.undetermined if decision.undetermined else rules.rules[decision.rule].status
    withholds = rules.question.withholds
    return (
        verdict_pb2.ToolStatus.Value(f"TOOL_STATUS_{status.upper()}"),
        rules.rules[decision.rule].id,
        decision.undetermined,
        bool(withholds and withholds(facts)),
    )


def _facts(request: pb.CheckToolRequest) -> dict[str, str]:
    """Return the facts in a request, as the contract describes them."""
    tool = request.tool_facts
    disabled, status = UNKNOWN, UNKNOWN
    if tool.HasField("approval"):
        record = tool.approval.record
        disabled, status = "false", "none"
        if tool.approval.HasField("record"):
            disabled, status = _known(record, "disabled"), _REVIEWS.get(record.status, UNKNOWN)
    return {
        "server.enabled": _known(request.server_facts, "enabled"),
        "server.quarantined": _known(request.server_facts, "quarantined"),
        "tool.config_denied": _known(tool, "config_denied"),
        "approval.disabled": disabled,
        "approval.status": status,
        "caller.refuses": str(tool.caller_refuses).lower(),
        "server.name": request.server,
        "tool.name": request.tool,
        "agent.name": request.agent.name if request.HasField("agent") else UNKNOWN,
    }


def _known(message: Message, field: str) -> str:
    return str(getattr(message, field)).lower() if message.HasField(field) else UNKNOWN
