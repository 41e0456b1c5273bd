"""The service over gRPC: a real server in a process of its own, called with stock stubs."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import json_format
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from hypothesis import given
from hypothesis import strategies as st

from callability.v1 import callability_service_pb2 as pb
from callability.v1 import facts_pb2, policy_service_pb2, verdict_pb2
from callability.v1.callability_service_pb2_grpc import CallabilityServiceStub
from callability.v1.policy_service_pb2_grpc import PolicyServiceStub
from support.checkout import POLICY, VECTORS
from support.commands import callability
from support.drawing import drawing
from support.policies import write_policy
from support.running import serving
from support.services import reason_of, refused, varint

CASES: list[dict[str, Any]] = [
    vector
    for name in ("calls", "load_outcome", "enable_outcome")
    for vector in json.loads((VECTORS / f"{name}.json").read_text())
]
OPEN_SERVER = facts_pb2.ServerFacts(enabled=True, quarantined=False)
OPEN_TOOL = facts_pb2.ToolFacts(config_denied=False, approval=facts_pb2.Approval())


def _tool_facts(**facts: Any) -> facts_pb2.ToolFacts:
    return json_format.ParseDict(facts, facts_pb2.ToolFacts())


def _batch(*servers: dict[str, Any]) -> pb.CheckToolsRequest:
    return pb.CheckToolsRequest(servers=[pb.ServerTools(**server) for server in servers])


def _raw(channel: grpc.Channel, call: str) -> Any:
    return channel.unary_unary(f"/callability.v1.CallabilityService/{call}")


def _contains(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        return all(_contains(found.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return len(found or []) == len(wanted) and all(map(_contains, found or [], wanted))
    return bool(found == wanted)


@pytest.mark.parametrize("vector", CASES, ids=[vector["name"] for vector in CASES])
def test_a_golden_vector_is_answered(vector: dict[str, Any], channel: grpc.Channel) -> None:
    """As any client in any language would call it."""
    stub = CallabilityServiceStub(channel)
    request = json_format.ParseDict(vector["request"], getattr(pb, f"{vector['call']}Request")())
    call = getattr(stub, vector["call"])
    if "error" in vector:
        code, reason, _ = refused(call, request)
        assert {"code": code.name, "reason": reason} == vector["error"]
        return
    reply = json_format.MessageToDict(call(request), always_print_fields_with_no_presence=True)
    assert len(reply["revision"]) == 64
    assert _contains(reply, vector["reply"]), json.dumps(reply, indent=2)


def test_the_server_is_healthy_and_describes_itself(channel: grpc.Channel) -> None:
    """Health for each service and for the whole, and reflection."""
    health: Any = health_pb2_grpc.HealthStub(channel)
    for service in ("", "callability.v1.CallabilityService", "callability.v1.PolicyService"):
        reply = health.Check(health_pb2.HealthCheckRequest(service=service))
        assert reply.status == health_pb2.HealthCheckResponse.SERVING
    database = ProtoReflectionDescriptorDatabase(channel)
    assert {"callability.v1.CallabilityService", "callability.v1.PolicyService"} <= set(database.get_services())
    described: Any = DescriptorPool(database).FindServiceByName("callability.v1.CallabilityService")
    assert {method.name for method in described.methods} == {
        "CheckTool",
        "CheckTools",
        "ExplainTool",
        "ClassifyLoad",
        "ClassifyEnable",
    }


def test_the_policy_describes_itself(channel: grpc.Channel) -> None:
    """Revision, engine, rules, statuses, actions and limits."""
    reply = PolicyServiceStub(channel).GetPolicy(policy_service_pb2.GetPolicyRequest())
    checked = json.loads(callability("check", str(POLICY), "--json").stdout)
    assert reply.revision == checked["revision"]
    by_name = {each.name: (each.combinations, list(each.rules), list(each.facts)) for each in reply.rule_sets}
    assert by_name == {
        each["name"]: (each["combinations"], [rule["id"] for rule in each["rules"]], each["facts"])
        for each in checked["rule_sets"]
    }
    assert {name: combinations for name, (combinations, _, _) in by_name.items()} == {
        "callability": 756,
        "load_outcome": 3_312,
        "enable_outcome": 4_860,
    }
    assert [each.exact_combinations for each in reply.rule_sets] == [str(each.combinations) for each in reply.rule_sets]
    assert all(0 < each.inner_nodes < int(each.regions) <= each.witnesses for each in reply.rule_sets)
    assert reply.engine == checked["rule_sets"][0]["engine"]
    assert [status.name for status in reply.statuses][-2:] == ["disabled_unknown", "callable"]
    assert [status.name for status in reply.load_statuses] == ["available", "transient", "denied", "permanent"]
    assert [status.name for status in reply.enable_statuses][-2:] == ["cancelled", "connect_failed"]
    assert (reply.limits.tools, reply.limits.name_bytes, reply.limits.error_text_bytes) == (20_000, 512, 65_536)
    assert {action.name for action in reply.actions} >= {"enable_server", "check_logs"}


def test_words_are_sent_once_for_each_status_and_each_rule_with_its_own(tmp_path: Path) -> None:
    """And a rule's own words only if it decided."""
    text = (POLICY / "callability.yaml").read_text()
    own = 'status: disabled_by_user, because: "It was noisy.", action: "Wait, then {enable_tool}."'
    write_policy(tmp_path, text.replace("status: disabled_by_user", own))
    off = _tool_facts(configDenied=False, approval={"record": {"disabled": True}})
    unread = facts_pb2.ToolFacts(config_denied=False)
    tools = [pb.Tool(name="a", facts=off), pb.Tool(name="b", facts=off), pb.Tool(name="c", facts=unread)]
    request = pb.CheckToolsRequest(servers=[pb.ServerTools(name="s", facts=OPEN_SERVER, tools=tools)])
    with serving("--policy", str(tmp_path)) as address, grpc.insecure_channel(address) as channel:
        reply = CallabilityServiceStub(channel).CheckTools(request)
        one = CallabilityServiceStub(channel).CheckTool(
            pb.CheckToolRequest(server="s", server_facts=OPEN_SERVER, tool="a", tool_facts=off)
        )
    assert [(verdict_pb2.ToolStatus.Name(words.status), words.rule) for words in reply.words] == [
        ("TOOL_STATUS_DISABLED_BY_USER", ""),
        ("TOOL_STATUS_DISABLED_BY_USER", "user-off"),
        ("TOOL_STATUS_DISABLED_UNKNOWN", ""),
    ]
    assert reply.words[1].remediation == "It was noisy. Wait, then {enable_tool}."
    assert reply.words[1].rejection == reply.words[1].remediation
    assert one.words == reply.words[1]


def test_a_batch_is_answered_as_its_tools_are_one_by_one(channel: grpc.Channel) -> None:
    """20,000 tools, the maximum of a request, with every combination of facts among them."""
    stub = CallabilityServiceStub(channel)
    different = [
        _tool_facts(configDenied=denied, approval=approval, callerRefuses=refuses)
        for denied in (True, False, None)
        for approval in (None, {}, {"record": {"disabled": True}}, {"record": {"disabled": False, "status": 2}})
        for refuses in (True, False)
    ]
    tools = [pb.Tool(name=f"tool-{number}", facts=different[number % len(different)]) for number in range(20_000)]
    reply = stub.CheckTools(_batch({"name": "s", "facts": OPEN_SERVER, "tools": tools}))
    alone = [
        stub.CheckTool(pb.CheckToolRequest(server="s", server_facts=OPEN_SERVER, tool="t", tool_facts=facts)).verdict
        for facts in different
    ]
    results = reply.servers[0].results
    assert [result.verdict for result in results] == [alone[number % len(different)] for number in range(20_000)]
    assert sum(count.count for count in reply.servers[0].counts) == 20_000


def test_each_limit_is_named_when_it_is_exceeded(channel: grpc.Channel) -> None:
    """With the number; other calls are not affected."""
    stub = CallabilityServiceStub(channel)
    tools = [pb.Tool(name="t")] * 10_001
    too_many = refused(stub.CheckTools, _batch(*[{"name": "s", "tools": tools}] * 2))
    assert too_many[:2] == (grpc.StatusCode.INVALID_ARGUMENT, "TOO_MANY_TOOLS")
    assert "20,002 tools, and may have 20,000" in too_many[2]
    servers = _batch(*[{"name": "s"}] * 2_001)
    assert refused(stub.CheckTools, servers)[1] == "TOO_MANY_SERVERS"
    long = pb.CheckToolRequest(server="s", tool="t" * 10_000)
    assert refused(stub.CheckTool, long)[1:] == (
        "NAME_TOO_LONG",
        "the name of the tool has 10,000 bytes, and may have 512",
    )
    labels = {f"key-{number}": "" for number in range(65)}
    many = pb.CheckToolRequest(server="s", tool="t", tool_facts=_tool_facts(labels={"values": labels}))
    assert refused(stub.CheckTool, many)[1] == "TOO_MANY_LABELS"
    text = "the text of the error has 65,537 bytes, and may have 65,536"
    assert refused(stub.ClassifyLoad, pb.ClassifyLoadRequest(error_text="x" * 65_537))[1:] == (
        "ERROR_TEXT_TOO_LONG",
        text,
    )
    assert stub.ClassifyLoad(pb.ClassifyLoadRequest(error_text="x" * 65_536)).verdict.undetermined
    agent = pb.CheckToolRequest(agent=facts_pb2.Agent(name="a" * 513), server="s", tool="t")
    assert refused(stub.CheckTool, agent)[1] == "NAME_TOO_LONG"
    assert stub.CheckTool(pb.CheckToolRequest(server="s" * 512, tool="é" * 256)).verdict.rule == "server-off"


def test_a_bad_item_is_an_error_of_that_item(channel: grpc.Channel) -> None:
    """Names that are too long or not UTF-8, malformed facts: the other items are answered."""
    call = _raw(channel, "CheckTools")
    good = pb.Tool(name="good", facts=OPEN_TOOL).SerializeToString()
    items = [b"\x0a\x02\xff\xfe", b"\x0a\x01t\x12\x01\xff", pb.Tool(name="t" * 513).SerializeToString(), good]
    tools = b"".join(b"\x1a" + varint(len(item)) + item for item in items)
    server = pb.ServerTools(name="s", facts=OPEN_SERVER).SerializeToString() + tools
    reply = pb.CheckToolsResponse.FromString(call(b"\x12" + varint(len(server)) + server))
    results = reply.servers[0].results
    assert [result.error.reason for result in results] == ["NAME_NOT_UTF8", "FACTS_MALFORMED", "NAME_TOO_LONG", ""]
    assert results[3].verdict.status == verdict_pb2.TOOL_STATUS_CALLABLE
    assert {count.status: count.count for count in reply.servers[0].counts} == {
        verdict_pb2.TOOL_STATUS_DISABLED_UNKNOWN: 3,
        verdict_pb2.TOOL_STATUS_CALLABLE: 1,
    }
    assert [words.status for words in reply.words] == [verdict_pb2.TOOL_STATUS_DISABLED_UNKNOWN]


def test_bytes_that_are_no_request_are_refused(channel: grpc.Channel) -> None:
    """On each call, and the server continues."""
    for name in ("CheckTool", "CheckTools", "ExplainTool", "ClassifyLoad", "ClassifyEnable"):
        call = _raw(channel, name)
        with pytest.raises(grpc.RpcError) as caught:
            call(b"\xff\xff\xff")
        assert reason_of(caught.value) == "REQUEST_MALFORMED"


@drawing(150)
@given(
    parts=st.lists(
        st.sampled_from(
            [
                facts_pb2.ToolFacts(config_denied=True),
                facts_pb2.ToolFacts(config_denied=False),
                facts_pb2.ToolFacts(caller_refuses=True),
                _tool_facts(approval={}),
                _tool_facts(approval={"record": {"disabled": True}}),
                _tool_facts(approval={"record": {"status": 1, "disabled": False}}),
            ]
        ),
        max_size=4,
    )
)
def test_facts_that_stand_on_the_wire_in_parts_are_merged(
    parts: list[facts_pb2.ToolFacts], channel: grpc.Channel
) -> None:
    """By the rules of protocol buffers: reading them as bytes makes no difference."""
    wire = pb.CheckToolRequest(server="s", server_facts=OPEN_SERVER, tool="t").SerializeToString()
    wire += b"".join(pb.CheckToolRequest(tool_facts=part).SerializeToString() for part in parts)
    call = _raw(channel, "CheckTool")
    merged = CallabilityServiceStub(channel).CheckTool(pb.CheckToolRequest.FromString(wire))
    assert pb.CheckToolResponse.FromString(call(wire)) == merged


def test_a_refused_policy_is_not_served(tmp_path: Path) -> None:
    """All findings on standard error, exit code 1, and nothing listens."""
    write_policy(tmp_path, "rules: []\nwords: {}\n")
    done = callability("serve", "--policy", str(tmp_path), "--address", "127.0.0.1:0")
    assert done.returncode == 1
    assert "callability.yaml:1:8: `rules` is an empty list [empty-list]" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("0.0.0.0:7420", "is not loopback, and is refused: give `--tls-certificate`"),
        ("example.org:7420", "is not loopback"),
        ("[::]:7420", "is not loopback"),
        ("127.0.0.1", "is not an address"),
        ("127.0.0.1:99999", "is not an address: write 127.0.0.1:PORT or [::1]:PORT, with a port from 0 to 65535"),
        ("nonsense", "is not an address"),
    ],
)
def test_an_address_that_is_not_loopback_is_refused(address: str, why: str) -> None:
    """With the reason, and exit code 2."""
    done = callability("serve", "--address", address)
    assert (done.returncode, why in done.stderr) == (2, True), done.stderr


def test_an_address_in_use_is_refused_and_its_owner_goes_on(address: str, channel: grpc.Channel) -> None:
    """Two servers never share a port silently."""
    done = callability("serve", "--address", address)
    assert (done.returncode, done.stderr) == (
        2,
        f"callability: `{address}` cannot be listened on: address already in use\n",
    )
    assert CallabilityServiceStub(channel).CheckTool(pb.CheckToolRequest(server="s", tool="t")).revision


def test_a_unix_socket_is_served_and_not_taken_from_its_owner(tmp_path: Path) -> None:
    """A file that is not a socket is left alone; a socket on which no process listens is replaced."""
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(path))
    request = pb.CheckToolRequest(server="s", tool="t")
    with serving(address=f"unix:{path}") as address:
        done = callability("serve", "--address", address)
        assert (done.returncode, "is listened on by another process" in done.stderr) == (2, True)
        with grpc.insecure_channel(address) as channel:
            assert CallabilityServiceStub(channel).CheckTool(request).verdict.rule == "server-off"
    plain = tmp_path / "plain"
    plain.write_text("kept")
    assert "is a file that is not a socket" in callability("serve", "--address", f"unix:{plain}").stderr
    assert plain.read_text() == "kept"


def test_the_answers_do_not_depend_on_the_process(tmp_path: Path) -> None:
    """A copy of the policy gives the same revision and the same bytes (FR-012)."""
    shutil.copytree(POLICY, tmp_path / "copy")
    request = pb.CheckToolRequest(server="s", server_facts=OPEN_SERVER, tool="t", tool_facts=OPEN_TOOL)
    replies = set()
    for policy in (POLICY, tmp_path / "copy"):
        with serving("--policy", str(policy)) as address, grpc.insecure_channel(address) as channel:
            replies.add(CallabilityServiceStub(channel).CheckTool(request).SerializeToString())
    assert len(replies) == 1


def test_limits_hold_for_what_was_answered_before(channel: grpc.Channel) -> None:
    """Servers whose results are kept count like any other."""
    stub = CallabilityServiceStub(channel)
    tools = [pb.Tool(name=f"t{number}", facts=OPEN_TOOL) for number in range(100)]
    server = {"name": "s", "facts": OPEN_SERVER, "tools": tools}
    assert len(stub.CheckTools(_batch(*[server] * 200)).servers) == 200
    assert refused(stub.CheckTools, _batch(*[server] * 201))[1] == "TOO_MANY_TOOLS"


def test_a_socket_of_another_kind_is_left_alone(tmp_path: Path) -> None:
    """Another process owns it, even if it accepts no connections."""
    path = tmp_path / "log"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as owned:
        owned.bind(str(path))
        done = callability("serve", "--address", f"unix:{path}")
        assert (done.returncode, "is listened on by another process" in done.stderr) == (2, True), done.stderr
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"still there", str(path))
        assert owned.recv(100) == b"still there"
