"""Names, annotations, the agent and labels over gRPC: a result that is kept never answers another question."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from random import Random

import grpc
import pytest

from callability.compiler.policy import load
from callability.contract.vocabulary import UNKNOWN
from callability.kernel.conditions import decide
from callability.v1 import callability_service_pb2 as pb
from callability.v1 import facts_pb2, policy_service_pb2, verdict_pb2
from callability.v1.callability_service_pb2_grpc import CallabilityServiceStub
from callability.v1.policy_service_pb2_grpc import PolicyServiceStub
from support.policies import write_policy
from support.running import serving

RULES = """\
labels:
  server: {environment: [production, staging]}
  tool: {reviewed: ["yes"]}
rules:
  - id: lock
    when: {any: [{server.quarantined: true}, {approval.status: [pending, changed]}]}
    status: disabled_unknown
  - {id: by-server, when: {server.name: "db-*", agent.name: [bot, ""]}, status: disabled_by_config, action: Ask.}
  - {id: by-tool, when: {tool.name: "*delete*", tool.label.reviewed: none}, status: disabled_by_config, action: Ask.}
  - id: by-label
    when: {server.label.environment: production, annotations.destructive: true}
    status: disabled_by_config
    because: It is production.
    action: Ask.
  - {id: open, status: callable}
words:
  disabled_by_config: {remediation: Ask the operator., rejection: 'Tool {tool}: ask the operator.'}
  disabled_unknown: {remediation: 'Tell the user: {check_logs}.', rejection: 'Tool {tool}: {check_logs}.'}
"""
SERVERS = ("db-main", "web", "unknown")
TOOLS = ("delete_row", "read", "unknown")
AGENTS = ("bot", "", "unknown", None)
ENVIRONMENTS = ("production", "staging", "prod", "none", None)
"""None: there is no such label."""
REVIEWED = ("yes", None)
DESTRUCTIVE = ("true", "false", "reads", "", None)
"""`reads`: true for a read-only tool; empty if the upstream omits it; None if its annotations are unknown."""
Case = tuple[str, str, str | None, str | None, str | None, str | None]
CASES: tuple[Case, ...] = tuple(product(SERVERS, TOOLS, AGENTS, ENVIRONMENTS, REVIEWED, DESTRUCTIVE))


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A policy that reads all of them."""
    return write_policy(tmp_path_factory.mktemp("policy"), RULES)


@pytest.fixture(scope="module")
def stub(policy: Path) -> Iterator[CallabilityServiceStub]:
    """A real server of it."""
    with serving("--policy", str(policy)) as address, grpc.insecure_channel(address) as channel:
        yield CallabilityServiceStub(channel)


@pytest.fixture(scope="module")
def expected(policy: Path) -> dict[Case, tuple[str, bool]]:
    """The verdict of the reference for each case, by the rules and the names themselves."""
    rule_set = load(policy).rule_sets["callability"].rule_set
    decided = {}
    for case in CASES:
        server, tool, agent, environment, reviewed, destructive = case
        declared = {None: "none", "production": "production", "staging": "staging"}
        facts = rule_set.question.open_facts | {
            # The word for an unknown fact is an ordinary name here.
            "server.name": "other" if server == UNKNOWN else server,
            "tool.name": "other" if tool == UNKNOWN else tool,
            "agent.name": UNKNOWN if agent is None else "other" if agent == UNKNOWN else agent,
            "server.label.environment": declared.get(environment, UNKNOWN),
            "tool.label.reviewed": reviewed or "none",
            "annotations.destructive": {None: UNKNOWN, "reads": "false", "": "true"}.get(destructive, str(destructive)),
        }
        decision = decide(rule_set.conditions, facts)
        decided[case] = (rule_set.rules[decision.rule].id, decision.undetermined)
    return decided


def _agent(name: str | None) -> facts_pb2.Agent | None:
    return None if name is None else facts_pb2.Agent(name=name)


def _labels(key: str, value: str | None) -> facts_pb2.Labels:
    return facts_pb2.Labels(values={} if value is None else {key: value})


def _server_facts(case: Case) -> facts_pb2.ServerFacts:
    return facts_pb2.ServerFacts(enabled=True, quarantined=False, labels=_labels("environment", case[3]))


def _tool_facts(case: Case) -> facts_pb2.ToolFacts:
    said = None if case[5] is None else facts_pb2.Annotations(destructive=case[5] != "false" if case[5] else None)
    if said and case[5] == "reads":
        said.read_only = True
    labels = _labels("reviewed", case[4])
    return facts_pb2.ToolFacts(config_denied=False, approval=facts_pb2.Approval(), annotations=said, labels=labels)


def _request(case: Case) -> pb.CheckToolRequest:
    return pb.CheckToolRequest(
        agent=_agent(case[2]),
        server=case[0],
        server_facts=_server_facts(case),
        tool=case[1],
        tool_facts=_tool_facts(case),
    )


def _decided(verdict: verdict_pb2.ToolVerdict) -> tuple[str, bool]:
    return verdict.rule, verdict.undetermined


def test_each_question_has_its_own_answer_in_whatever_order(
    stub: CallabilityServiceStub, expected: dict[Case, tuple[str, bool]]
) -> None:
    """Every case twice, interleaved at random, so that each is asked while others are kept."""
    cases = [*CASES, *CASES]
    Random(1).shuffle(cases)
    wrong = [case for case in cases if _decided(stub.CheckTool(_request(case)).verdict) != expected[case]]
    assert wrong == []
    assert {rule for rule, _ in expected.values()} == {"by-server", "by-tool", "by-label", "open"}
    assert any(undetermined for _, undetermined in expected.values())


def test_a_batch_is_answered_as_each_tool_by_itself(
    stub: CallabilityServiceStub, expected: dict[Case, tuple[str, bool]]
) -> None:
    """For one agent after the other with the same servers on the wire, and again."""
    for agent in (*AGENTS, *AGENTS):
        mine = [case for case in CASES if case[2] == agent]
        servers = [
            pb.ServerTools(
                name=case[0], facts=_server_facts(case), tools=[pb.Tool(name=case[1], facts=_tool_facts(case))]
            )
            for case in mine
        ]
        reply = stub.CheckTools(pb.CheckToolsRequest(agent=_agent(agent), servers=servers))
        decided = [_decided(server.results[0].verdict) for server in reply.servers]
        assert decided == [expected[case] for case in mine], agent


def test_an_explanation_shows_what_was_read(
    stub: CallabilityServiceStub, expected: dict[Case, tuple[str, bool]]
) -> None:
    """The names of the request, in quotes, and no fact that no rule reads."""
    one = _request(("db-main", "delete_row", "bot", "prod", None, ""))
    request = pb.ExplainToolRequest(
        agent=one.agent,
        server=one.server,
        server_facts=one.server_facts,
        tool=one.tool,
        tool_facts=one.tool_facts,
    )
    reply = stub.ExplainTool(request)
    facts = {each.fact: each.value for each in reply.facts}
    assert facts["tool.name"] == "delete_row"
    assert (facts["server.label.environment"], facts["annotations.destructive"]) == (UNKNOWN, "true")
    assert "annotations.read_only" not in facts
    assert "`server.name` is `db-main` and `agent.name` is `bot`" in reply.trials[-1].why
    for case in CASES[:: len(CASES) // 40]:
        one = _request(case)
        explained = stub.ExplainTool(
            pb.ExplainToolRequest(
                agent=_agent(case[2]),
                server=one.server,
                server_facts=one.server_facts,
                tool=one.tool,
                tool_facts=one.tool_facts,
            )
        )
        assert _decided(explained.verdict) == expected[case]
        assert explained.trials[-1].rule == expected[case][0]


def test_the_service_publishes_the_facts_that_rules_read_and_the_labels_that_are_declared(tmp_path: Path) -> None:
    """A declared label that no rule reads is published as well; a fact that only a law reads is not read by a rule."""
    text = RULES.replace('"yes"]', '"yes", "no"], unused: [a]').replace(
        "words:", "laws: [{name: the caller decides, when: {caller.refuses: true}, never: disabled_by_user}]\nwords:"
    )
    with serving("--policy", str(write_policy(tmp_path, text))) as address, grpc.insecure_channel(address) as channel:
        reply = PolicyServiceStub(channel).GetPolicy(policy_service_pb2.GetPolicyRequest())
    tools = next(each for each in reply.rule_sets if each.name == "callability")
    assert list(tools.reads) == [
        "server.quarantined",
        "approval.status",
        "annotations.destructive",
        "server.name",
        "tool.name",
        "agent.name",
        "server.label.environment",
        "tool.label.reviewed",
    ]
    assert "caller.refuses" in tools.facts
    assert [(label.fact, list(label.values)) for label in tools.labels] == [
        ("server.label.environment", ["production", "staging"]),
        ("tool.label.reviewed", ["yes", "no"]),
        ("tool.label.unused", ["a"]),
    ]
    others = [each for each in reply.rule_sets if each.name != "callability"]
    assert [(list(each.reads), list(each.labels)) for each in others] == [([], []), ([], [])]
