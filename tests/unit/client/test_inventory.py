"""The inventory of a proxy: its judgements are those of fresh requests, and little is decided again."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import Tool, ToolAnnotations

from callability.adapter import ALL_SERVERS, Judgement, Scope, ToolText, discovery, judge, tool_counts
from callability.client import NO_RECORD, Inventory, PolicyUnavailable, tool_facts
from callability.client.judgements import MAX_BYTES_OF_A_BATCH, MAX_ROUNDS, Judging
from callability.contract.vocabulary import ToolStatus
from callability.kernel.limits import REQUEST_BYTES
from callability.v1 import callability_service_pb2 as pb
from callability.v1 import facts_pb2
from callability.v1.facts_pb2 import Agent, ServerFacts, ToolFacts
from support.drawing import drawing
from support.judging import DENIED, FREE, OPEN, PENDING, PHRASES, SWITCHED_OFF, UNREAD, answered, stub_of
from support.policies import write_policy

OFF = {"enabled": False, "quarantined": False}
UNKNOWN_SERVER: dict[str, Any] = {}
_tool_facts = st.sampled_from([FREE, DENIED, SWITCHED_OFF, PENDING, UNREAD])
_server_facts = st.sampled_from([OPEN, OPEN, OFF, UNKNOWN_SERVER])
_servers = st.sampled_from(["git", "files", "web"])
_names = st.sampled_from(["read", "write", "find", "x" * 600, ""])
_edits = st.one_of(
    st.tuples(st.just("server"), _servers, _server_facts),
    st.tuples(st.just("tool"), _servers, _names, _tool_facts),
    st.tuples(st.just("gone"), _servers, _names),
    st.tuples(st.just("removed"), _servers),
    st.tuples(st.just("replaced"), _servers, st.dictionaries(_names, _tool_facts, max_size=4)),
    st.tuples(st.just("policy"), st.sampled_from([0, 1])),
)


def _server(facts: dict[str, Any]) -> ServerFacts:
    return json_format.ParseDict(facts, ServerFacts())


def _tool(facts: dict[str, Any]) -> ToolFacts:
    return json_format.ParseDict(facts, ToolFacts())


@pytest.fixture(scope="module")
def policies(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path | None, Path]:
    """Return the shipped policy, and one in which rules have words of their own and read the agent."""
    rules = """
rules:
  - {id: off, when: {server.enabled: false}, status: server_disabled}
  - {id: of-robots, when: {agent.name: robot, tool.name: write}, status: disabled_by_config,
     because: Robots do not write., action: Ask the operator.}
  - {id: denied, when: {tool.config_denied: true}, status: disabled_by_config, because: It is denied.}
  - {id: by-user, when: {approval.disabled: true}, status: disabled_by_user}
  - {id: quarantine, when: {server.quarantined: true}, status: server_quarantined}
  - {id: unapproved, when: {approval.status: [pending, changed]}, status: pending_approval}
  - {id: open, status: callable}
words:
  server_disabled: {remediation: "{enable_server} first.", rejection: "{enable_server} first."}
  disabled_by_config: {remediation: "{edit_config}.", rejection: "{edit_config}."}
  disabled_by_user: {remediation: "{enable_tool}.", rejection: "{enable_tool}."}
  server_quarantined: {remediation: "{release_server}.", rejection: "{release_server}."}
  pending_approval: {remediation: "{approve_tool}.", rejection: "{approve_tool}."}
  disabled_unknown: {remediation: "{check_logs}.", rejection: "{check_logs}."}
"""
    return None, write_policy(tmp_path_factory.mktemp("words"), rules)


def _judged(steps: Judging, answer: Callable[[pb.CheckToolsRequest], pb.CheckToolsResponse]) -> Judgement:
    request = next(steps)
    while True:
        try:
            request = steps.send(answer(request))
        except StopIteration as end:
            judgement: Judgement = end.value
            return judgement


class _Service:
    """Answers requests by one of several policies, and counts the tools in them."""

    def __init__(self, *policies: Path | None) -> None:
        self.stubs = [stub_of(policy) if policy else stub_of() for policy in policies]
        self.current = 0
        self.requests: list[pb.CheckToolsRequest] = []

    def answer(self, request: pb.CheckToolsRequest) -> pb.CheckToolsResponse:
        """Answer a request."""
        self.requests.append(request)
        return answered(request, self.stubs[self.current])

    def judge(self, inventory: Inventory, agent: Agent | None = None, visible: Any = ALL_SERVERS) -> Judgement:
        """Judge an inventory as a client does."""
        return _judged(inventory.judging(agent, visible=visible), self.answer)

    def fresh(self, inventory: Inventory, agent: Agent | None = None, visible: Any = ALL_SERVERS) -> Judgement:
        """Judge everything by one request."""
        request = inventory.request(agent, visible=visible)
        return judge(request, answered(request, self.stubs[self.current]), visible=ALL_SERVERS)

    def decided(self) -> int:
        """Return how many tools the requests since the last look were about."""
        tools = sum(len(server.tools) for request in self.requests for server in request.servers)
        self.requests.clear()
        return tools


def _apply(inventory: Inventory, service: _Service, edit: tuple[Any, ...]) -> None:
    kind, *given_ = edit
    if kind == "policy":
        service.current = given_[0]
        return
    server = given_[0]
    if server not in inventory.servers:
        inventory.put_server(server, _server(OPEN))
    match kind:
        case "server":
            inventory.put_server(server, _server(given_[1]))
        case "tool":
            inventory.put_tool(server, given_[1], _tool(given_[2]))
        case "gone":
            inventory.remove_tool(server, given_[1])
        case "removed":
            inventory.remove_server(server)
        case _:
            inventory.replace_tools(server, {name: _tool(facts) for name, facts in given_[1].items()})


@given(
    edits=st.lists(_edits, max_size=12),
    agents=st.lists(st.sampled_from([None, "", "robot", "other"]), min_size=1, max_size=3),
    visible=st.just(ALL_SERVERS) | st.sets(_servers),
)
@drawing(60)
def test_a_judgement_is_that_of_a_fresh_request_about_everything(
    policies: tuple[Path | None, Path],
    edits: list[tuple[Any, ...]],
    agents: list[str | None],
    visible: Scope,
) -> None:
    """Tools, their order, words and errors of items, after any edits of inventory and policy."""
    inventory, service = Inventory(), _Service(*policies)
    for edit in edits:
        _apply(inventory, service, edit)
        for name in agents:
            agent = None if name is None else Agent(name=name)
            judgement, fresh = service.judge(inventory, agent, visible), service.fresh(inventory, agent, visible)
            assert judgement == fresh
            assert list(judgement.words) == list(fresh.words)


def _filled(tools: int = 50) -> Inventory:
    inventory = Inventory()
    for server in ("git", "files"):
        inventory.put_server(server, _server(OPEN))
        inventory.replace_tools(server, {f"tool_{number}": _tool(FREE) for number in range(tools)})
    return inventory


def test_what_has_not_changed_is_not_decided_again() -> None:
    """One tool costs one decision, a server its tools, and nothing costs nothing."""
    inventory, service = _filled(), _Service(None)
    first = service.judge(inventory)
    assert service.decided() == 100
    assert service.judge(inventory) is first
    assert service.decided() == 0
    inventory.put_tool("git", "tool_7", _tool(DENIED))
    assert service.judge(inventory) != first
    assert service.decided() == 1
    inventory.remove_tool("git", "tool_8")
    service.judge(inventory)
    assert service.decided() == 0
    inventory.put_server("git", _server(OFF))
    service.judge(inventory)
    assert service.decided() == 49
    inventory.replace_tools("files", {f"tool_{number}": _tool(FREE) for number in range(51)})
    service.judge(inventory)
    assert service.decided() == 1


def test_another_revision_decides_everything_again_and_a_known_one_nothing(
    policies: tuple[Path | None, Path],
) -> None:
    """As when two replicas answer by two policies during a roll-out."""
    inventory, service = _filled(), _Service(*policies)
    by_first = service.judge(inventory)
    service.decided()
    service.current = 1
    service.judge(inventory)
    assert service.decided() == 100
    service.current = 0
    assert service.judge(inventory) == by_first
    assert service.decided() == 0


def test_a_server_that_is_not_visible_is_in_no_request() -> None:
    """To the agent it does not exist (FR-007)."""
    inventory, service = _filled(), _Service(None)
    assert {tool.server for tool in service.judge(inventory, visible=["git"]).tools} == {"git"}
    assert [[server.name for server in request.servers] for request in service.requests] == [["git"]]
    with pytest.raises(TypeError, match="the names of servers"):
        inventory.judging(visible="git")


def test_a_policy_that_changes_with_each_answer_gives_none() -> None:
    """In place of a judgement by two policies."""
    inventory, service = _filled(2), _Service(None)
    service.judge(inventory)
    inventory.put_tool("git", "tool_0", _tool(DENIED))
    steps = inventory.judging(visible=ALL_SERVERS)
    rounds = itertools.count()
    with pytest.raises(PolicyUnavailable, match="changes with each answer"):
        _judged(steps, lambda request: _by_revision(answered(request), f"{next(rounds)}"))
    assert next(rounds) == MAX_ROUNDS


def _by_revision(response: pb.CheckToolsResponse, revision: str) -> pb.CheckToolsResponse:
    response.revision = revision
    return response


def test_an_answer_to_another_question_is_no_answer() -> None:
    """Its verdicts would belong to other tools."""
    steps = _filled(2).judging(visible=ALL_SERVERS)
    next(steps)
    with pytest.raises(PolicyUnavailable, match="another question"):
        steps.send(pb.CheckToolsResponse(revision="r"))


def test_more_tools_than_a_request_may_hold_are_spread_over_several() -> None:
    """And joined by one revision."""
    inventory, service = Inventory(), _Service(None)
    inventory.put_server("git", _server(OPEN))
    facts = _tool(FREE)
    inventory.replace_tools("git", {f"tool_{number}": facts for number in range(20_001)})
    judgement = service.judge(inventory)
    assert [len(request.servers[0].tools) for request in service.requests] == [20_000, 1]
    assert len(judgement.callable) == 20_001
    assert service.judge(inventory) is judgement


def test_requests_are_within_the_bytes_that_a_service_takes() -> None:
    """However large facts are, of tools, of servers and of the agent; each tool is asked about once."""
    labels = facts_pb2.Labels(values={f"key-{number}": "x" * 500 for number in range(60)})
    inventory, service, agent = Inventory(), _Service(None), Agent(name="robot", labels=labels)
    for server in ("git", "files", "none"):
        inventory.put_server(server, ServerFacts(enabled=True, quarantined=False, labels=labels))
    large = _tool(FREE)
    large.labels.CopyFrom(labels)
    for server in ("git", "files"):
        inventory.replace_tools(server, {f"tool_{number}": large for number in range(300)})
    judgement = service.judge(inventory, agent)
    sizes = [request.ByteSize() for request in service.requests]
    assert len(sizes) == 7
    assert max(sizes) <= MAX_BYTES_OF_A_BATCH < REQUEST_BYTES["callability.v1.CallabilityService/CheckTools"]
    assert [len(judgement.tools), service.decided()] == [600, 600]


@pytest.mark.parametrize("name", ["x" * 100_000, "y" * 513, "é" * 257, "0" * 512 + "1", "\ud800", "read\udfff"])
def test_a_tool_that_no_request_can_hold_is_held_back_by_itself(name: str) -> None:
    """And those of its inventory are decided; a server that lists one would otherwise hide all servers."""
    inventory, service = Inventory(), _Service(None)
    inventory.put_server("git", _server(OPEN))
    large = _tool(FREE)
    large.labels.values["key"] = "x" * 70_000
    inventory.replace_tools("git", {"read": _tool(FREE), name: _tool(FREE), "large": large, "write": _tool(FREE)})
    judgement = service.judge(inventory)
    assert [tool.tool for tool in judgement.callable] == ["read", "write"]
    assert [(tool.tool, tool.status, tool.withhold_text) for tool in judgement.locked] == [
        (name, ToolStatus.DISABLED_UNKNOWN, True),
        ("large", ToolStatus.DISABLED_UNKNOWN, True),
    ]
    assert max(request.ByteSize() for request in service.requests) < 4_000
    assert service.judge(inventory) is judgement
    answer = discovery(judgement, "large", found=[], texts=judgement.texts, phrases=PHRASES, include_disabled=True)
    assert "disabled_unknown" in answer["remediation"]
    assert len(inventory.request(visible=ALL_SERVERS).servers[0].tools) == 4


@pytest.mark.parametrize(
    "listed",
    [
        Tool(
            name="read",
            description="Reads.",
            input_schema={"type": "object"},
            annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False),
        ),
        {
            "name": "read",
            "description": "Reads.",
            "inputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": True, "openWorldHint": False},
        },
        SimpleNamespace(
            name="read",
            description="Reads.",
            inputSchema={"type": "object"},
            annotations={"readOnlyHint": True, "openWorldHint": False},
        ),
    ],
    ids=["mcp", "json", "older"],
)
def test_facts_are_made_of_a_tool_as_any_library_lists_it(listed: object) -> None:
    """Every group is sent, so that no rule is undetermined for a group that is left out."""
    facts = tool_facts(listed, config_denied=False, approval=NO_RECORD)
    assert {field.name for field, _ in facts.ListFields()} == {
        *("config_denied", "approval", "annotations", "labels", "declared_facts")
    }
    assert facts.annotations.read_only
    assert not facts.annotations.HasField("destructive")
    assert facts.annotations.HasField("open_world")
    inventory = Inventory(separator="__")
    inventory.put_server("git", _server(OPEN))
    inventory.replace_listed("git", [listed, listed], lambda each: facts)
    annotations = {"readOnlyHint": True, "openWorldHint": False}
    assert dict(inventory.texts) == {"git__read": ToolText("Reads.", {"type": "object"}, annotations)}


@pytest.mark.parametrize(
    "annotations", [{"readOnlyHint": "yes"}, {"openWorldHint": 1}, "read-only", 5, ["readOnlyHint"]]
)
def test_annotations_that_are_not_as_mcp_says_are_unknown(annotations: object) -> None:
    """In place of a fact that nobody claimed; a server that lists them costs no other tool."""
    listed = {"name": "t", "annotations": annotations}
    facts = tool_facts(listed, config_denied=False, approval=NO_RECORD)
    assert {field.name for field, _ in facts.ListFields()} == {"config_denied", "approval", "labels", "declared_facts"}
    inventory = Inventory()
    inventory.put_server("git", _server(OPEN))
    inventory.replace_listed("git", [{"name": "good"}, listed], lambda each: facts)
    assert inventory.texts["git:good"] == ToolText()
    assert inventory.texts["git:t"].annotations == (annotations if isinstance(annotations, dict) else None)


def test_a_mistake_of_the_proxy_is_an_error() -> None:
    """It is made where the proxy is written, and not by a server."""
    inventory = Inventory()
    inventory.put_server("git", ServerFacts())
    with pytest.raises(ValueError, match="caller_refuses"):
        inventory.put_tool("git", "t", ToolFacts(), refusal="Never.")
    with pytest.raises(KeyError):
        inventory.put_tool("files", "t", ToolFacts())


@pytest.mark.parametrize("value", [1, True, None, ["x"]])
def test_a_label_or_a_declared_fact_that_is_no_text_is_named(value: Any) -> None:
    """As `tier: 1` in a config would be; the library of messages would name neither."""
    kind = type(value).__name__
    facts: dict[str, Any] = {"config_denied": False, "approval": NO_RECORD}
    with pytest.raises(TypeError, match=rf"^the label `tier` must be text, and is {kind}$"):
        tool_facts({"name": "read"}, **facts, labels={"stage": "test", "tier": value})
    with pytest.raises(TypeError, match=rf"^the declared fact `proxy\.quota` must be text, and is {kind}$"):
        tool_facts({"name": "read"}, **facts, declared={"proxy.quota": value})


def test_a_discovery_answer_and_the_counts_come_from_the_inventory() -> None:
    """With the texts of the listed tools, and why the proxy's own gate refuses one."""
    inventory, service = Inventory(), _Service(None)
    inventory.put_server("a:b", _server(OPEN))
    inventory.put_tool("a:b", "read:file", _tool(FREE), text=ToolText("Reads."))
    inventory.put_tool("a:b", "run_task", _tool(FREE | {"callerRefuses": True}), refusal="It needs a task.")
    judgement = service.judge(inventory)
    answer = discovery(
        judgement,
        "run",
        found=["a:b:read:file"],
        texts=judgement.texts,
        phrases=PHRASES,
        include_disabled=True,
    )
    assert answer["tools"][0]["description"] == "Reads."
    assert answer["remediation"] == {"disabled_unknown": "It needs a task."}
    assert tool_counts(judgement) == {"a:b": {"callable": 1, "disabled_unknown": 1}}
    assert inventory.refusal("a:b", "run_task") == "It needs a task."
    with pytest.raises(KeyError):
        inventory.check_request("a:b", "none")


def test_what_a_server_says_while_its_tools_are_judged_is_not_shown() -> None:
    """A poisoned description that arrives before the answer of the policy has not been judged (A.3)."""
    inventory, service = Inventory(), _Service(None)
    inventory.put_server("s", _server(OPEN))
    inventory.put_tool("s", "t", _tool(FREE), text=ToolText("Reads."))
    steps = inventory.judging(visible=ALL_SERVERS)
    request = next(steps)
    inventory.put_tool("s", "t", _tool(FREE | PENDING), text=ToolText("Poisoned."))
    with pytest.raises(StopIteration) as end:
        steps.send(service.answer(request))
    assert end.value.value.callable
    assert dict(end.value.value.texts) == {"s:t": ToolText("Reads.")}
    assert not service.judge(inventory).callable


def test_another_text_with_the_same_facts_is_another_judgement() -> None:
    """A search index that a proxy keeps beside the judgement is made again; nothing is decided again."""
    inventory, service = Inventory(), _Service(None)
    inventory.put_server("s", _server(OPEN))
    inventory.put_tool("s", "t", _tool(FREE), text=ToolText("Reads."))
    before = service.judge(inventory)
    inventory.put_tool("s", "t", _tool(FREE), text=ToolText("Reads."))
    assert service.judge(inventory) is before
    inventory.put_tool("s", "t", _tool(FREE), text=ToolText("Reads a file."))
    assert service.judge(inventory).texts["s:t"] == ToolText("Reads a file.")
    inventory.replace_tools("s", {"t": _tool(FREE)})
    assert not service.judge(inventory).texts


def test_the_text_of_a_hidden_tool_with_the_same_qualified_name_is_not_shown() -> None:
    """To the agent, the server that it may not see does not exist (FR-007)."""
    inventory, service = Inventory(separator="_"), _Service(None)
    for server, tool in (("files", "x_read"), ("files_x", "read")):
        inventory.put_server(server, _server(OPEN))
        inventory.put_tool(server, tool, _tool(FREE), text=ToolText(f"Of {server}."))
    judgement = service.judge(inventory, visible={"files_x"})
    assert dict(judgement.texts) == {"files_x_read": ToolText("Of files_x.")}
    assert "files_x_read" not in inventory.texts


@pytest.mark.parametrize("tools", [(("a", "b__c"), ("a__b", "c")), (("a", "_b"), ("a_", "b"))], ids=["middle", "edge"])
@pytest.mark.parametrize("is_known", [False, True], ids=["together", "one_after_the_other"])
def test_two_tools_with_one_qualified_name_are_left_out_and_cost_no_other(
    tools: Sequence[tuple[str, str]], is_known: bool
) -> None:
    """An upstream chooses its names: with one of them it could else end discovery for every agent."""
    inventory, service = Inventory(separator="__"), _Service(None)
    for server, tool in tools:
        inventory.put_server(server, _server(OPEN))
        inventory.put_tool(server, "other", _tool(FREE))
        inventory.put_tool(server, tool, _tool(FREE), text=ToolText(f"Of {server}."))
        if is_known and (server, tool) == tools[0]:
            service.judge(inventory)
    judgement = service.judge(inventory)
    name = "__".join(tools[0])
    assert judgement.duplicates == (name,)
    assert service.judge(inventory) is judgement
    assert {tool.name for tool in judgement.tools} == {f"{server}__other" for server, _ in tools}
    assert name not in judgement.texts
    assert service.judge(inventory, visible={tools[1][0]}).by_name[name].server == tools[1][0]
    inventory.remove_tool(*tools[0])
    renamed = service.judge(inventory)
    assert renamed.duplicates == ()
    assert renamed.by_name[name].server == tools[1][0]


def test_threads_that_edit_and_judge_do_not_disturb_each_other() -> None:
    """Each judgement is of the inventory as it was when it began."""
    inventory = _filled(20)
    facts = _tool(FREE), _tool(DENIED)
    failures: list[BaseException] = []

    def edit() -> None:
        for number in range(300):
            inventory.put_tool("git", f"tool_{number % 20}", facts[number % 2])

    def look() -> None:
        stub = stub_of()
        with asyncio.Runner() as runner:

            async def ask(request: pb.CheckToolsRequest) -> pb.CheckToolsResponse:
                return await stub.CheckTools(request)

            try:
                for _ in range(40):
                    judgement = _judged(
                        inventory.judging(visible=ALL_SERVERS), lambda request: runner.run(ask(request))
                    )
                    assert len(judgement.tools) == 40
            except BaseException as error:
                failures.append(error)

    threads = [Thread(target=edit), *(Thread(target=look) for _ in range(4))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failures
    service = _Service(None)
    assert service.judge(inventory) == service.fresh(inventory)
