"""Large messages at once: a service under its memory limit survives them, and others are answered meanwhile."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from callability.kernel.limits import MESSAGE_BYTES
from callability.v1 import callability_service_pb2 as pb
from callability.v1.callability_service_pb2_grpc import CallabilityServiceStub
from support.callers import bearer, token_entry, write_callers
from support.large_messages import send_until_ended, senders
from support.raw_http2 import RawConnection
from support.running import Service, resident, service, serving
from support.services import reason_of
from support.waiting import eventually

QUESTION = pb.CheckToolRequest(server="s", tool="t")
CHECK_TOOL = "/callability.v1.CallabilityService/CheckTool"
HEALTH = "/grpc.health.v1.Health/Check"
METHODS = (
    CHECK_TOOL,
    "/callability.v1.CallabilityService/CheckTools",
    "/callability.v1.PolicyService/WatchPolicy",
    HEALTH,
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
)
OTHERS = ("/callability.v1.PolicyService/ValidatePolicy", "/grpc.health.v1.Health/Watch")
CHART_MIB = 512
"""The limit of memory in the Helm chart."""
AT_ONCE = 60
OWN = (("grpc.use_local_subchannel_pool", 1),)


@contextmanager
def _another_is_answered(running: Service, token: str) -> Iterator[None]:
    """Call on another connection throughout; each call must be answered."""
    ending, codes = Event(), list[str]()

    def ask() -> None:
        with grpc.insecure_channel(running.address, OWN) as channel:
            # With pauses, since this takes processor time from the large messages.
            while not ending.wait(0.02) or not codes:
                try:
                    CallabilityServiceStub(channel).CheckTool(QUESTION, metadata=bearer(token))
                    codes.append("OK")
                except grpc.RpcError as error:
                    codes.append(error.code().name)

    other = Thread(target=ask)
    other.start()
    try:
        yield
    finally:
        ending.set()
        other.join()
    assert set(codes) == {"OK"}


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can return the memory of its heaps")
@pytest.mark.parametrize(("path", "knows"), [*((path, False) for path in METHODS), (METHODS[1], True), (HEALTH, True)])
def test_large_messages_at_once_fit_into_the_memory_of_a_pod(path: str, knows: bool, tmp_path: Any) -> None:
    """60 of the largest size, whole and without their last bytes, on as many connections; of one method also on one,
    since the places of a connection are the same for all methods.

    If the service `knows` its callers, they have no credentials.
    """
    callers = write_callers(tmp_path, known={"tokens": [token_entry("known")], "may": ["check"]})
    with service(*(("--callers", str(callers)) if knows else ())) as running:
        with _another_is_answered(running, "known"):
            pass
        before, size = resident(running), MESSAGE_BYTES - 5
        with _another_is_answered(running, "known"):
            for connections in (1, AT_ONCE) if path == CHECK_TOOL else (AT_ONCE,):
                for sent in (size, size * 99 // 100):
                    with senders(running.address, connections) as opened:
                        for number in range(AT_ONCE):
                            opened[number % connections].call(path, size, sent)
                        send_until_ended(opened, AT_ONCE if sent == size else 1)
        assert running.process.poll() is None
        assert resident(running, "VmHWM") < CHART_MIB
        eventually(lambda: resident(running) - before < 50)


def test_a_request_that_does_not_arrive_is_refused_with_a_reason() -> None:
    """Whether the call is unary for its client or not: it takes no place for ever."""
    unsent = Event()

    def never() -> Iterator[bytes]:
        unsent.wait()
        yield b""

    with serving() as address, grpc.insecure_channel(address, OWN) as channel:
        methods: list[Any] = [channel.stream_stream(path) for path in (*METHODS, *OTHERS)]
        for call in [method(never()) for method in methods]:
            with pytest.raises(grpc.RpcError) as caught:
                list(call)
            outcome = caught.value.code(), reason_of(caught.value), caught.value.details()
            said = "the request has not arrived within 5 s: try again"
            assert outcome == (grpc.StatusCode.RESOURCE_EXHAUSTED, "REQUEST_TOO_SLOW", said)
        unsent.set()


def test_a_connection_has_at_most_a_quarter_of_the_places_for_reading(address: str) -> None:
    """Requests that it begins and does not send keep no other connection waiting."""
    with RawConnection(address) as held, grpc.insecure_channel(address, OWN) as channel:
        for _ in range(200):
            held.open_call(CHECK_TOOL)
        held.wait_until_read()
        assert CallabilityServiceStub(channel).CheckTool(QUESTION).revision
        held.wait_until_read()
        assert not held.answers(0)


def test_probes_that_are_started_and_not_sent_keep_no_other_from_its_answer(address: str) -> None:
    """They need no credentials, so anybody can begin them, on any number of connections."""
    with senders(address, AT_ONCE) as opened, grpc.insecure_channel(address, OWN) as channel:
        for each in opened:
            for _ in range(3):
                each.call(HEALTH, 100, 50)
            each.step()
        health: Any = health_pb2_grpc.HealthStub(channel)
        for _ in range(10):
            assert health.Check(health_pb2.HealthCheckRequest()).status == health_pb2.HealthCheckResponse.SERVING


def test_large_requests_of_many_connections_wait_for_their_turn(address: str) -> None:
    """Each is answered, in whatever order they get their places."""
    tools = [pb.Tool(name=f"{number:05}{'n' * 195}") for number in range(15_000)]
    request = pb.CheckToolsRequest(servers=[pb.ServerTools(name="s", tools=tools)])
    channels = [grpc.insecure_channel(address, (*OWN, ("grpc.max_receive_message_length", -1))) for _ in range(40)]
    try:
        replies = [CallabilityServiceStub(each).CheckTools.future(request) for each in channels]
        assert {len(each.result().servers[0].results) for each in replies} == {15_000}
    finally:
        for each in channels:
            each.close()
