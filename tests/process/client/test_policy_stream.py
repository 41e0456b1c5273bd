"""The local client on the stream of real replicas: edits, outages, and a start without any."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from callability.client import Credentials, PolicyUnavailable
from callability.client import local as local_client
from callability.kernel.policy import read
from callability.v1 import policy_service_pb2 as pb
from support.bundles import DrawnRequests, bundle_of, write_policy_of
from support.callers import token_entry, write_callers
from support.clients import KINDS, Caller, Recorded, Replica, calling, replicas
from support.drawing import share
from support.running import service, unused_port
from support.waiting import eventually

DRAWN = 300
MAX_AGE_SECONDS = 15
"""Three heartbeats: a busy machine may take its time between two of them."""


@pytest.fixture(scope="module")
def two() -> Iterator[list[Replica]]:
    """Two replicas; a test leaves them running, or starts them again."""
    with replicas(2) as running:
        yield running


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Which client is used."""
    return str(request.param)


def _refused(caller: Caller) -> bool:
    try:
        caller.check()
    except PolicyUnavailable:
        return True
    return False


def test_an_edit_of_a_served_policy_decides_in_the_client(kind: str, tmp_path: Path) -> None:
    """Without a call, and one that is rejected by the service does not."""
    policy = write_policy_of("shipped", tmp_path)
    recorded = Recorded()
    with replicas(1, policy) as running:
        addresses = [running[0].address]
        with calling(kind, lambda client: client.local(addresses, hooks=recorded)) as caller:
            assert caller.check().verdict.rule == "user-off"
            for name in ("callability_test.yaml", "callability.yaml"):
                file = policy / name
                file.write_text(file.read_text().replace("user-off", "switched-off"))
            eventually(lambda: caller.check().verdict.rule == "switched-off")
            assert {name for name, _, _ in recorded.figures} <= {
                *("callability_client_call_seconds", "callability_client_replica_serving"),
                "callability_client_policy_age_seconds",
            }


def test_a_replica_that_is_stopped_or_killed_is_left_for_another(kind: str, two: list[Replica]) -> None:
    """The policy decides meanwhile, and another replica confirms it before it is too old."""
    recorded = Recorded()
    addresses = [replica.address for replica in two]
    with calling(kind, lambda client: client.local(addresses, hooks=recorded, max_age_seconds=60)) as caller:
        caller.check()
        with two[0].stopped():
            eventually(lambda: ("replica_serving", {"replica": addresses[1]}) in recorded.events)
            assert caller.check().verdict.rule == "user-off"
        two[1].kill()
        try:
            eventually(lambda: recorded.events.count(("replica_serving", {"replica": addresses[0]})) == 2)
        finally:
            two[1].restart()
        assert not recorded.saw("policy_too_old")


def test_without_a_replica_a_policy_becomes_too_old_and_a_new_contact_ends_it(kind: str, two: list[Replica]) -> None:
    """Nothing may be called meanwhile."""
    addresses = [two[0].address]
    with calling(kind, lambda client: client.local(addresses, max_age_seconds=MAX_AGE_SECONDS)) as caller:
        caller.check()
        two[0].kill()
        try:
            assert caller.check().verdict.rule == "user-off"
            eventually(lambda: _refused(caller))
        finally:
            two[0].restart()
        eventually(lambda: not _refused(caller))


@pytest.fixture
def newer() -> Iterator[str]:
    """Return the address of a service that sends a bundle of a format which no client knows yet, and a heartbeat."""

    def watch(request: bytes, context: object) -> Iterator[bytes]:
        yield pb.WatchPolicyResponse(bundle=b"newer", bundle_digest="digest", revision="r").SerializeToString()
        yield pb.WatchPolicyResponse(bundle_digest="digest", revision="r").SerializeToString()

    server = grpc.server(ThreadPoolExecutor(2))
    methods: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
        "WatchPolicy": grpc.unary_stream_rpc_method_handler(watch)
    }
    server.add_registered_method_handlers("callability.v1.PolicyService", methods)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None).wait()


def test_a_bundle_that_the_client_refuses_is_reported_as_that_alone(kind: str, newer: str) -> None:
    """The service sent it: that it did not would send an operator to the wrong place."""
    recorded = Recorded()
    with calling(kind, lambda client: client.local([newer], hooks=recorded)) as caller:
        # The client leaves a replica at the first heartbeat with a policy that it does not have.
        eventually(lambda: recorded.saw("replica_down"))
        assert _refused(caller)
        assert [event for event, _ in recorded.events].count("bundle_refused") == 1
        assert not recorded.saw("policy_not_sent")


def test_a_start_without_a_replica_decides_by_the_bundle_on_disk(kind: str, two: list[Replica], tmp_path: Path) -> None:
    """And without one on disk there is no answer."""
    keep = tmp_path / "kept"
    with calling(kind, lambda client: client.local([two[0].address], keep=keep)) as caller:
        caller.check()
    nobody = [f"127.0.0.1:{unused_port()}"]
    with calling(kind, lambda client: client.local(nobody, keep=keep)) as caller:
        assert caller.check().verdict.rule == "user-off"
    with calling(kind, lambda client: client.local(nobody)) as caller, pytest.raises(PolicyUnavailable):
        caller.check()


def test_local_and_remote_give_the_same_answers(kind: str, two: list[Replica]) -> None:
    """Message for message, about drawn facts; `make facts` draws a million."""
    drawn = DrawnRequests(read(bundle_of("shipped")).callability, seed=5)
    addresses = [two[0].address]
    with (
        calling(kind, lambda client: client.remote(addresses)) as remote,
        calling(kind, lambda client: client.local(addresses)) as local,
    ):
        for _ in range(share(DRAWN)):
            request = drawn.check_tool()
            assert local.check(request) == remote.check(request), request
        assert local.do("get_policy").rule_sets[0].reads == remote.do("get_policy").rule_sets[0].reads


def test_a_right_that_is_missing_is_in_the_details(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code alone, UNAVAILABLE, would send an operator to the network."""
    monkeypatch.setattr(local_client, "FIRST_SECONDS", 1.0)
    callers = write_callers(tmp_path, proxy={"tokens": [token_entry("good")], "may": ["check"]})
    with service("--callers", str(callers)) as running:
        credentials = Credentials(token="good")
        with (
            calling(kind, lambda client: client.local([running.address], credentials=credentials)) as caller,
            pytest.raises(PolicyUnavailable) as caught,
        ):
            caller.check()
        assert caught.value.details == (
            f"{running.address}: PERMISSION_DENIED: the caller has no right to `watch`: the operator grants it"
        )
