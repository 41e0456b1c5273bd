"""Labels of agents and declared facts on the wire: what is sent, not sent, not declared and not understood."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import TypeVar

import grpc
import pytest
from prometheus_client import CollectorRegistry

from callability.compiler.policy import Policy
from callability.service.metrics import PolicyMetrics
from callability.v1 import callability_service_pb2 as pb
from callability.v1 import facts_pb2, policy_service_pb2, verdict_pb2
from support.declared_rules import declaring_policy
from support.service_stub import PolicyServiceStub, ServiceStub

Answer = TypeVar("Answer")
OPS = facts_pb2.Agent(name="a", labels=facts_pb2.Labels(values={"team": "ops"}))


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    """A policy that reads a label of agents, a fact of servers, and an asserted fact of tools."""
    return declaring_policy(tmp_path)


def _declared(**values: str) -> facts_pb2.DeclaredFacts:
    return facts_pb2.DeclaredFacts(values={name.replace("_", ".", 1): value for name, value in values.items()})


def _request(
    agent: facts_pb2.Agent | None, server: dict[str, str] | None = None, tool: dict[str, str] | None = None
) -> pb.CheckToolsRequest:
    server_facts = facts_pb2.ServerFacts(enabled=True, quarantined=False)
    tool_facts = facts_pb2.ToolFacts(config_denied=False, approval=facts_pb2.Approval())
    if server is not None:
        server_facts.declared_facts.CopyFrom(_declared(**server))
    if tool is not None:
        tool_facts.declared_facts.CopyFrom(_declared(**tool))
    tools = [pb.Tool(name="t", facts=tool_facts)]
    return pb.CheckToolsRequest(agent=agent, servers=[pb.ServerTools(name="s", facts=server_facts, tools=tools)])


def _answer(call: Awaitable[Answer]) -> Answer:
    async def ask() -> Answer:
        return await call

    return asyncio.run(ask())


def _one(request: pb.CheckToolsRequest) -> pb.CheckToolRequest:
    [server] = request.servers
    agent = request.agent if request.HasField("agent") else None
    tool = server.tools[0]
    return pb.CheckToolRequest(
        agent=agent, server=server.name, server_facts=server.facts, tool=tool.name, tool_facts=tool.facts
    )


def _verdict(stub: ServiceStub, request: pb.CheckToolsRequest) -> verdict_pb2.ToolVerdict:
    """Return the verdict, which is the same by every call, and asked a second time."""

    async def ask() -> list[verdict_pb2.ToolVerdict]:
        one = _one(request)
        explained = pb.ExplainToolRequest.FromString(one.SerializeToString())
        many = [await stub.CheckTools(request) for _ in range(2)]
        each = [await stub.CheckTool(one) for _ in range(2)]
        return [
            *(reply.servers[0].results[0].verdict for reply in many),
            *(reply.verdict for reply in each),
            (await stub.ExplainTool(explained)).verdict,
        ]

    first, *others = asyncio.run(ask())
    assert all(other == first for other in others)
    return first


@pytest.mark.parametrize(
    ("request_", "rule", "unread", "retry"),
    [
        (_request(None), "no-team", "agent.label.team", verdict_pb2.RETRY_NEVER),
        (_request(facts_pb2.Agent(name="a")), "no-team", "agent.label.team", verdict_pb2.RETRY_NEVER),
        (_request(facts_pb2.Agent(labels=facts_pb2.Labels())), "no-team", "", verdict_pb2.RETRY_NEVER),
        (
            _request(facts_pb2.Agent(labels=facts_pb2.Labels(values={"team": "sales"}))),
            "no-team",
            "agent.label.team",
            verdict_pb2.RETRY_NEVER,
        ),
        (_request(OPS), "no-quota", "proxy.quota", verdict_pb2.RETRY_NEVER),
        (_request(OPS, None, {"proxy_license": "true"}), "no-quota", "proxy.quota", verdict_pb2.RETRY_LATER),
        (_request(OPS, {}, {"proxy_license": "true"}), "no-quota", "proxy.quota", verdict_pb2.RETRY_LATER),
        (
            _request(OPS, {"proxy_quota": "lower"}, {"proxy_license": "true"}),
            "no-quota",
            "proxy.quota",
            verdict_pb2.RETRY_NEVER,
        ),
        (_request(OPS, {"proxy_quota": "out"}), "no-quota", "", verdict_pb2.RETRY_NEVER),
        (_request(OPS, {"proxy_quota": "low"}), "unlicensed", "", verdict_pb2.RETRY_NEVER),
        (_request(OPS, {"proxy_quota": "low"}, {"proxy_license": "yes"}), "unlicensed", "", verdict_pb2.RETRY_NEVER),
        (_request(OPS, {"proxy_quota": "low"}, {"proxy_license": "true"}), "open", "", verdict_pb2.RETRY_NOW),
        (_request(OPS, {"proxy_license": "true"}, {"proxy_quota": "ok"}), "no-quota", "proxy.quota", None),
    ],
)
def test_a_declared_fact_that_is_not_sent_is_unknown_and_an_asserted_one_locks(
    request_: pb.CheckToolsRequest, rule: str, unread: str, retry: verdict_pb2.Retry.ValueType | None, policy: Policy
) -> None:
    """A label that is not in a group that is sent is not there. A fact that is sent for something else is ignored.

    A value that is not declared stays unknown, and so a later try cannot succeed.
    """
    verdict = _verdict(ServiceStub(policy), request_)
    assert (verdict.rule, list(verdict.unread)) == (rule, [unread] if unread else [])
    assert verdict.undetermined is bool(unread)
    assert retry is None or verdict.retry == retry


def test_facts_that_are_not_declared_are_counted_whether_or_not_the_answer_is_kept(policy: Policy) -> None:
    """By what they are facts of, and never by their names, which any caller may invent."""
    registry = CollectorRegistry()
    stub = ServiceStub(policy, PolicyMetrics(registry))
    agent = facts_pb2.Agent(name="a", labels=OPS.labels, declared_facts=_declared(x_a="1"))
    request = _request(agent, {"proxy_quota": "ok", "x_s": "1"}, {"proxy_license": "true", "x_t": "1", "x_u": "1"})

    async def ask() -> None:
        for _ in range(2):
            await stub.CheckTools(request)
            await stub.CheckTool(_one(request))

    asyncio.run(ask())
    counted = [registry.get_sample_value("callability_undeclared_facts_total", {"of": of}) for of in _SUBJECTS]
    assert counted == [4, 4, 8]


_SUBJECTS = ("agent", "server", "tool")


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({f"x_f{number}": "1" for number in range(65)}, "TOO_MANY_DECLARED_FACTS"),
        ({"x_" + "n" * 127: "1"}, "DECLARED_FACT_NAME_SIZE"),
        ({"x_y": "v" * 129}, "DECLARED_FACT_VALUE_SIZE"),
        ({"x_y": ""}, "DECLARED_FACT_VALUE_SIZE"),
    ],
)
def test_too_many_or_too_long_declared_facts_are_refused(values: dict[str, str], reason: str, policy: Policy) -> None:
    """Of an agent the request is refused, of a server or a tool the item."""
    stub = ServiceStub(policy)
    of_agent = _request(facts_pb2.Agent(name="a", declared_facts=_declared(**values)))
    with pytest.raises(grpc.RpcError) as refused:
        _answer(stub.CheckTools(of_agent))
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    for request in (_request(OPS, values), _request(OPS, {}, values)):
        [result] = _answer(stub.CheckTools(request)).servers[0].results
        assert result.error.reason == reason


def test_get_policy_publishes_what_the_rule_file_declares(policy: Policy) -> None:
    """With the phrases of the actions, which a client needs to fill placeholders; words carry them too."""
    stub = ServiceStub(policy)
    answer = _answer(PolicyServiceStub(stub.served).GetPolicy(policy_service_pb2.GetPolicyRequest()))
    [rules] = [each for each in answer.rule_sets if each.name == "callability"]
    assert rules.declared_facts[1] == policy_service_pb2.DeclaredFact(
        fact="proxy.license",
        subject=policy_service_pb2.FACT_SUBJECT_TOOL,
        values=["true", "false"],
        default_value="false",
        owner=verdict_pb2.LIFTED_BY_USER,
        action="accept_license",
        asserted=True,
        phrase="accept the license",
    )
    assert [(label.fact, list(label.values)) for label in rules.labels] == [("agent.label.team", ["research", "ops"])]
    assert [(each.name, each.fact) for each in answer.actions[-2:]] == [
        ("raise_quota", "proxy.quota"),
        ("accept_license", "proxy.license"),
    ]
    reply = _answer(stub.CheckTool(_one(_request(OPS, {"proxy_quota": "out"}))))
    assert dict(reply.words.phrases) == {"raise_quota": "raise the quota"}
