"""Three replicas behind Envoy and nginx, by the configurations in `ops`, over TLS on both sides."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from callability.v1 import callability_service_pb2 as pb
from callability.v1 import facts_pb2
from callability.v1.callability_service_pb2_grpc import CallabilityServiceStub
from callability.v1.policy_service_pb2 import WatchPolicyRequest
from callability.v1.policy_service_pb2_grpc import PolicyServiceStub
from support.balancers import MISSING, OPS, PROGRAMS, Balancer, balancer
from support.callers import bearer, tls_channel, token_entry, write_callers
from support.certificates import Authority
from support.checkout import POLICY
from support.clients import Replica, replicas
from support.edits import replace
from support.services import SWITCHED_OFF
from support.waiting import SECONDS, eventually

KINDS = [
    pytest.param(kind, marks=pytest.mark.skipif(PROGRAMS[kind] is None, reason=why)) for kind, why in MISSING.items()
]
TOKEN = bearer("secret")


def _batch(tools: int, label: str = "") -> pb.CheckToolsRequest:
    facts = facts_pb2.ToolFacts(labels=facts_pb2.Labels(values={"a": label, "b": label} if label else {}))
    every = [pb.Tool(name=f"tool_{number:05}", facts=facts) for number in range(tools)]
    return pb.CheckToolsRequest(servers=[pb.ServerTools(name="s", tools=every)])


class Behind(SimpleNamespace):
    """Replicas behind a balancer, with a channel to it, the authority of all and the policy."""

    kind: str
    balancer: Balancer
    replicas: list[Replica]
    authority: Authority
    channel: grpc.Channel
    policy: Path

    def check(self) -> str:
        """Ask about a tool, and return the revision that decided, or the code of the error."""
        try:
            reply = CallabilityServiceStub(self.channel).CheckTool(SWITCHED_OFF, timeout=SECONDS, metadata=TOKEN)
        except grpc.RpcError as error:
            return str(error.code().name)
        assert reply.verdict.rule == "user-off"
        return str(reply.revision)


@pytest.fixture(scope="module", params=KINDS)
def behind(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Behind]:
    """Three replicas of a policy in a directory, which know their callers, behind a balancer. A test leaves them so."""
    tmp_path = tmp_path_factory.mktemp(request.param)
    authority = Authority(tmp_path, "known")
    pair = authority.pair("replica")
    callers = write_callers(tmp_path, a={"tokens": [token_entry("secret")], "may": ["check", "watch"]})
    policy = tmp_path / "policy"
    shutil.copytree(POLICY, policy, ignore=shutil.ignore_patterns("schema", "examples"))
    tls = ("--tls-certificate", str(pair.certificate), "--tls-key", str(pair.key), "--callers", str(callers))
    with replicas(3, policy, *tls) as running:
        ports = [int(replica.address.rpartition(":")[2]) for replica in running]
        with (
            balancer(request.param, tmp_path / "balancer", ports, authority) as front,
            tls_channel(front.address, authority.path, options=[("grpc.max_receive_message_length", -1)]) as channel,
        ):
            yield Behind(
                kind=request.param,
                balancer=front,
                replicas=running,
                authority=authority,
                channel=channel,
                policy=policy,
            )


def test_calls_are_answered_whichever_replica_is_gone(behind: Behind) -> None:
    """One is killed, and another hangs: at most one call in flight is lost, and none behind Envoy."""
    assert [behind.check() for _ in range(6)] == [behind.check()] * 6
    behind.replicas[0].kill()
    with behind.replicas[1].stopped():
        codes = [behind.check() for _ in range(30)]
        lost = [code for code in codes if code == "UNAVAILABLE"]
        assert len(set(codes) - {"UNAVAILABLE"}) == 1
        assert len(lost) <= (0 if behind.kind == "envoy" else 2)
    behind.replicas[0].restart()
    eventually(lambda: {behind.check() for _ in range(6)} == {codes[-1]})


def test_a_rolling_restart_loses_no_call_behind_envoy(behind: Behind) -> None:
    """Behind nginx, a caller repeats what a replica refuses while it stops."""
    codes = []
    for replica in behind.replicas:
        replica.process.terminate()
        while replica.process.poll() is None:
            codes.append(behind.check())
        replica.close()
        codes += [behind.check() for _ in range(6)]
        replica.restart()
        codes += [behind.check() for _ in range(6)]
    allowed = set() if behind.kind == "envoy" else {"UNAVAILABLE"}
    assert len(set(codes) - allowed) == 1
    assert codes.count("UNAVAILABLE") < len(codes) / 4


def test_a_large_batch_and_its_answer_pass(behind: Behind) -> None:
    """20,000 tools, the most that the contract allows; a request beyond its bytes is refused as it says."""
    stub = CallabilityServiceStub(behind.channel)
    reply = stub.CheckTools(_batch(20_000), timeout=SECONDS, metadata=TOKEN)
    assert sum(len(each.results) for each in reply.servers) == 20_000
    with pytest.raises(grpc.RpcError) as caught:
        stub.CheckTools(_batch(20_000, "x" * 900), timeout=SECONDS, metadata=TOKEN)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_the_policy_is_watched_for_longer_than_a_call_may_last(behind: Behind) -> None:
    """Four heartbeats take 20 s, more than Envoy's default of 15 s; streams of health are silent, and have no end."""
    stream = PolicyServiceStub(behind.channel).WatchPolicy(WatchPolicyRequest(), metadata=TOKEN, timeout=SECONDS)
    first = next(stream)
    assert first.bundle
    assert not any(next(stream).bundle for _ in range(4))
    rules = behind.policy / "callability.yaml"
    replace(rules, f"{rules.read_text()}\n# another revision\n")
    edited = next(message for message in stream if message.bundle).revision
    assert edited != first.revision
    stream.cancel()
    # Each replica takes the edit in its own time.
    eventually(lambda: {behind.check() for _ in range(30)} == {edited})
    text = "".join(path.read_text() for path in (OPS / behind.kind).iterdir())
    for method in ("PolicyService/WatchPolicy", "Health/Watch"):
        [block] = re.findall(rf"{method}(?: \{{| }})\n((?:.*timeout.*\n|.*(?:route:|cluster:).*\n)+)", text)
        assert ("timeout: 0s" in block) == (behind.kind == "envoy")
        assert "timeout" in block


def test_health_needs_no_token_and_other_calls_do(behind: Behind) -> None:
    """What the service says of a caller reaches the caller."""
    health: Any = health_pb2_grpc.HealthStub(behind.channel)
    assert health.Check(health_pb2.HealthCheckRequest(), timeout=SECONDS) == health_pb2.HealthCheckResponse(
        status=health_pb2.HealthCheckResponse.SERVING
    )
    with pytest.raises(grpc.RpcError) as caught:
        CallabilityServiceStub(behind.channel).CheckTool(SWITCHED_OFF, timeout=SECONDS)
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_a_rotated_certificate_is_used_by_new_connections(behind: Behind, tmp_path: Path) -> None:
    """Envoy sees it by itself, and nginx is asked to read it; the connection from before goes on."""
    revision = behind.check()
    other = Authority(tmp_path, "other")
    next_pair = other.pair("next")
    before = {name: (behind.balancer.tls / name).read_text() for name in ("balancer-key.pem", "balancer.pem")}
    for source, name in ((next_pair.key, "balancer-key.pem"), (next_pair.certificate, "balancer.pem")):
        replace(behind.balancer.tls / name, source.read_text())
    behind.balancer.reload()

    def trusted() -> bool:
        with tls_channel(behind.balancer.address, other.path) as channel:
            try:
                return bool(CallabilityServiceStub(channel).CheckTool(SWITCHED_OFF, timeout=SECONDS, metadata=TOKEN))
            except grpc.RpcError:
                return False

    eventually(trusted)
    if behind.kind == "envoy":
        assert behind.check() == revision
    for name, text in before.items():
        replace(behind.balancer.tls / name, text)
    behind.balancer.reload()
    eventually(lambda: not trusted())


def test_replicas_of_another_authority_get_no_call(behind: Behind, tmp_path: Path) -> None:
    """Somebody who listens on a replica's port gets no token."""
    pair = Authority(tmp_path, "stranger").pair("theirs")
    running = behind.replicas
    ports = [int(replica.address.rpartition(":")[2]) for replica in running]
    for replica in running:
        replica.kill()
    tls = ("--tls-certificate", str(pair.certificate), "--tls-key", str(pair.key))
    strangers = [Replica(None, *tls, address=f"127.0.0.1:{port}") for port in ports]
    try:
        assert behind.check() == "UNAVAILABLE"
    finally:
        for stranger in strangers:
            stranger.close()
        for replica in running:
            replica.restart()
    eventually(lambda: behind.check() not in {"UNAVAILABLE", "UNAUTHENTICATED"})
