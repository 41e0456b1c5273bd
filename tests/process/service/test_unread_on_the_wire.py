"""What a caller reads about facts that could not be read, and what the service's operator reads about such callers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from callability.v1 import callability_service_pb2 as pb
from callability.v1 import facts_pb2, outcome_pb2, verdict_pb2
from callability.v1.callability_service_pb2_grpc import CallabilityServiceStub
from support.commands import callability
from support.policies import write_policy
from support.running import serving
from support.services import ServedPolicy, served
from support.waiting import eventually

RULES = """\
labels:
  server: {environment: [production, staging]}
rules:
  - id: lock
    when: {any: [{server.quarantined: true}, {approval.status: [pending, changed]}]}
    status: disabled_unknown
  - id: by-agent
    when: {agent.name: bot, tool.name: "drop_*"}
    status: disabled_by_config
  - id: freeze
    when: {server.label.environment: production, annotations.open_world: true}
    status: disabled_by_config
  - {id: open, status: callable}
words:
  disabled_by_config: {remediation: Ask the operator., rejection: 'Tool {tool}: ask the operator.'}
  disabled_unknown: {remediation: 'Tell the user: {check_logs}.', rejection: 'Tool {tool}: {check_logs}.'}
"""
NEVER, LATER = verdict_pb2.RETRY_NEVER, verdict_pb2.RETRY_LATER
SERVER = facts_pb2.ServerFacts(
    enabled=True, quarantined=False, labels=facts_pb2.Labels(values={"environment": "production"})
)
TOOL = facts_pb2.ToolFacts(
    approval=facts_pb2.Approval(), annotations=facts_pb2.Annotations(), labels=facts_pb2.Labels()
)
AGENT = facts_pb2.Agent(name="bot")


def _server(**changes: object) -> facts_pb2.ServerFacts:
    facts = facts_pb2.ServerFacts()
    facts.CopyFrom(SERVER)
    for name, value in changes.items():
        facts.ClearField(name)  # type: ignore[arg-type]  # a name of a field
        if isinstance(value, str):
            facts.labels.values["environment"] = value
    return facts


def _tool(*left_out: str) -> facts_pb2.ToolFacts:
    facts = facts_pb2.ToolFacts()
    facts.CopyFrom(TOOL)
    for name in left_out:
        facts.ClearField(name)  # type: ignore[arg-type]  # a name of a field
    return facts


def _reviewed(status: int | None) -> facts_pb2.ToolFacts:
    facts = _tool()
    facts.approval.record.disabled = False
    if status is not None:
        facts.approval.record.status = status  # type: ignore[assignment]  # of any version
    return facts


@pytest.fixture(scope="module")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CallabilityServiceStub]:
    """A real server of a policy that reads a label, an annotation and the agent."""
    policy = write_policy(tmp_path_factory.mktemp("policy"), RULES)
    with serving("--policy", str(policy)) as address, grpc.insecure_channel(address) as channel:
        yield CallabilityServiceStub(channel)


@pytest.mark.parametrize(
    ("request_", "rule", "unread", "retry"),
    [
        (("read", _server(quarantined=None, labels="staging"), _tool("approval"), AGENT), "lock",
         ["server.quarantined", "approval.status"], LATER),
        (("read", _server(quarantined=None, labels="staging"), _tool(), AGENT), "lock", ["server.quarantined"], LATER),
        (("read", _server(quarantined=None), _tool(), AGENT), "lock", ["server.quarantined"], NEVER),
        (("read", _server(quarantined=None, labels="prod"), _tool(), AGENT), "lock", ["server.quarantined"], NEVER),
        (("read", _server(quarantined=None, labels="staging"), _tool(), None), "lock", ["server.quarantined"], LATER),
        (("drop_all", _server(quarantined=None, labels="staging"), _tool(), None), "lock", ["server.quarantined"],
         NEVER),
        (("read", _server(labels="staging"), _reviewed(None), AGENT), "lock", ["approval.status"], LATER),
        (("read", _server(labels="staging"), _reviewed(0), AGENT), "lock", ["approval.status"], NEVER),
        (("read", _server(labels="staging"), _reviewed(9), AGENT), "lock", ["approval.status"], NEVER),
        (("drop_all", SERVER, _tool(), None), "by-agent", ["agent.name"], NEVER),
        (("read", _server(labels=None), _tool(), AGENT), "freeze", ["server.label.environment"], NEVER),
        (("read", _server(labels="prod"), _tool(), AGENT), "freeze", ["server.label.environment"], NEVER),
        (("read", SERVER, _tool("annotations"), AGENT), "freeze", ["annotations.open_world"], NEVER),
        (("read", _server(labels="prod"), _tool("annotations"), AGENT), "freeze",
         ["annotations.open_world", "server.label.environment"], NEVER),
    ],
    ids=[
        "server state and the approval may be read later",
        "of two facts the one that is known is not named",
        "whatever is read later, a rule below locks the tool",
        "a rule below depends on a label with an undeclared value",
        "a rule below does not depend on an agent that is never sent",
        "a rule below depends on an agent that is never sent",
        "a record without a status",
        "a record whose status was read and is unspecified",
        "a record with a status of a newer version",
        "a caller that never says for whom it asks",
        "a caller that never sends labels",
        "a label with an undeclared value",
        "a caller that never sends annotations",
        "two at once, in the order of the facts",
    ],
)  # fmt: skip
def test_an_undetermined_verdict_names_what_could_not_be_read(
    stub: CallabilityServiceStub,
    request_: tuple[str, facts_pb2.ServerFacts, facts_pb2.ToolFacts, facts_pb2.Agent | None],
    rule: str,
    unread: list[str],
    retry: verdict_pb2.Retry.ValueType,
) -> None:
    """The same in every call. A retry can help if what may be read later can make the tool callable."""
    tool, server_facts, tool_facts, agent = request_
    one = stub.CheckTool(
        pb.CheckToolRequest(agent=agent, server="s", server_facts=server_facts, tool=tool, tool_facts=tool_facts)
    ).verdict
    explained = stub.ExplainTool(
        pb.ExplainToolRequest(agent=agent, server="s", server_facts=server_facts, tool=tool, tool_facts=tool_facts)
    ).verdict
    server_tools = pb.ServerTools(name="s", facts=server_facts, tools=[pb.Tool(name=tool, facts=tool_facts)])
    many = stub.CheckTools(pb.CheckToolsRequest(agent=agent, servers=[server_tools])).servers[0].results[0].verdict
    assert (one.rule, one.undetermined, list(one.unread), one.retry) == (rule, True, unread, retry)
    assert one == many == explained


def test_a_verdict_that_is_determined_names_nothing(stub: CallabilityServiceStub) -> None:
    """An unknown fact below the deciding rule changes nothing."""
    request = pb.CheckToolRequest(
        server="s", server_facts=_server(quarantined=None, labels=None), tool="t", tool_facts=_tool("annotations")
    )
    request.server_facts.quarantined = True
    verdict = stub.CheckTool(request).verdict
    assert (verdict.rule, verdict.undetermined, list(verdict.unread)) == ("lock", False, [])


def _count(service: ServedPolicy, question: str, fact: str, cause: str) -> float | None:
    """Return the value of a fact in the metrics, or None if there is no such series."""
    series = f'callability_undetermined_decisions_total{{cause="{cause}",fact="{fact}",question="{question}"}} '
    values = [line.removeprefix(series) for line in service.metrics.splitlines() if line.startswith(series)]
    return float(values[0]) if values else None


def test_the_service_counts_decisions_that_lack_a_fact_and_says_so_once(tmp_path: Path) -> None:
    """Each decision counts, also if its result was kept; a fact that no caller left out has the value zero."""
    policy = tmp_path / "policy"
    policy.mkdir()
    unlabelled = pb.ServerTools(
        name="s", facts=_server(labels=None), tools=[pb.Tool(name=f"t{number}", facts=TOOL) for number in range(10)]
    )
    misspelt = pb.ServerTools(name="p", facts=_server(labels="SECRET"), tools=[pb.Tool(name="t", facts=TOOL)])
    with served(write_policy(policy, RULES)) as service:
        assert _count(service, "callability", "server.label.environment", "left_out") == 0
        stub = CallabilityServiceStub(service.channel)
        for _ in range(3):
            stub.CheckTools(pb.CheckToolsRequest(agent=AGENT, servers=[unlabelled, misspelt]))
            stub.CheckTool(
                pb.CheckToolRequest(agent=AGENT, server="s", server_facts=SERVER, tool="t", tool_facts=_tool())
            )
            stub.CheckTool(
                pb.CheckToolRequest(
                    agent=AGENT, server="s", server_facts=SERVER, tool="t", tool_facts=_tool("annotations")
                )
            )
        assert _count(service, "callability", "server.label.environment", "left_out") == 30
        assert _count(service, "callability", "server.label.environment", "not_understood") == 3
        assert _count(service, "callability", "annotations.open_world", "left_out") == 3
        assert _count(service, "callability", "agent.name", "left_out") == 0
        assert _count(service, "callability", "server.enabled", "left_out") is None
        log = service.log
        leaves_out = "leaves out `{}`, which a rule of `callability` reads"
        assert log.count(leaves_out.format("server.label.environment")) == 1
        assert log.count(leaves_out.format("annotations.open_world")) == 1
        assert log.count("a value of `server.label.environment` that `callability` does not declare") == 1
        assert "SECRET" not in log + service.metrics


def test_the_service_counts_what_the_classifying_calls_lack(tmp_path: Path) -> None:
    """An older proxy omits what it does not know."""
    policy = tmp_path / "policy"
    assert callability("policy", "export", str(policy)).returncode == 0
    with served(policy) as service:
        stub = CallabilityServiceStub(service.channel)
        for _ in range(2):
            verdict = stub.ClassifyEnable(pb.ClassifyEnableRequest(facts=outcome_pb2.EnableFacts())).verdict
            assert verdict.undetermined
        assert _count(service, "enable_outcome", "enable.known", "left_out") == 2
        assert stub.ClassifyLoad(pb.ClassifyLoadRequest()).verdict.undetermined
        assert _count(service, "load_outcome", "load.failure", "left_out") == 1


def test_a_fact_that_an_edited_policy_does_not_read_is_counted_no_longer(tmp_path: Path) -> None:
    """The metrics stay as large as the policy, however often it is edited."""
    policy = tmp_path / "policy"
    policy.mkdir()
    with served(write_policy(policy, RULES)) as service:
        before = service.policy().revision
        write_policy(policy, RULES.replace("environment", "zone"))
        eventually(lambda: service.policy().revision != before)
        assert _count(service, "callability", "server.label.zone", "left_out") == 0
        assert _count(service, "callability", "server.label.environment", "left_out") is None
