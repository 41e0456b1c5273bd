"""The service when it is stopped, and when it gets more calls than it answers at a time."""

from __future__ import annotations

import asyncio
import os
import queue
import signal
import threading
import time
from collections import Counter
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from callability.service.server import Port, Server
from callability.v1 import callability_service_pb2 as pb
from callability.v1 import policy_service_pb2
from callability.v1.callability_service_pb2_grpc import CallabilityServiceStub
from callability.v1.policy_service_pb2_grpc import PolicyServiceStub
from support.bundles import checked_of
from support.checkout import POLICY
from support.raw_http2 import RawConnection
from support.running import children_of, service, serving
from support.services import LONG_CHECK, reason_of
from support.waiting import eventually

CHECK_TOOL = "/callability.v1.CallabilityService/CheckTool"
QUESTION = pb.CheckToolRequest(server="s", tool="t")
SHIPPED = policy_service_pb2.ValidatePolicyRequest(
    files=[policy_service_pb2.PolicyFile(name=each.name, data=each.read_bytes()) for each in POLICY.glob("*.yaml")]
)
UNAVAILABLE = grpc.StatusCode.UNAVAILABLE

_LATE_SECONDS = 33
"""Longer than gRPC lets a call wait by default, by so much that its check, every few seconds, would see it."""

_PAUSE = 0.02
"""Seconds between two calls: so short that to the service, there is none."""

_OWN = [("grpc.use_local_subchannel_pool", 1)]
"""Options of a channel with a connection of its own."""


def _batch(tools: int) -> pb.CheckToolsRequest:
    every = [pb.Tool(name=f"tool_{number:05}") for number in range(tools)]
    return pb.CheckToolsRequest(servers=[pb.ServerTools(name="s", tools=every)])


def _code(call: grpc.Future[Any]) -> str:
    error = call.exception()
    return error.code().name if isinstance(error, grpc.RpcError) else "OK"


def test_a_service_that_was_started_to_outlive_its_terminal_is_not_stopped_with_it() -> None:
    """As `nohup` starts it; its terminal sends SIGHUP to every process."""
    with service("--workers", "2", before=["nohup"]) as running:
        workers = children_of(running.process.pid)
        assert len(workers) == 2
        for each in (running.process.pid, *map(int, workers)):
            os.kill(each, signal.SIGHUP)
        with grpc.insecure_channel(running.address) as channel:
            assert CallabilityServiceStub(channel).CheckTool(QUESTION, wait_for_ready=True, timeout=120).revision
        assert (running.process.poll(), children_of(running.process.pid)) == (None, workers)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_calls_in_flight_are_answered_when_the_service_is_stopped(number: signal.Signals) -> None:
    """Including calls that gRPC has read and not yet handed over; and the process exits with 0."""
    with service() as running, RawConnection(running.address) as caller:
        for each in range(300):
            caller.call(CHECK_TOOL, pb.CheckToolRequest(server="s", tool=f"t{each}").SerializeToString())
        # The answer to a ping shows that everything before it has been read.
        caller.wait_until_read()
        running.process.send_signal(number)
        assert Counter(caller.answers(300).values()) == {True: 300}
        assert running.process.wait(120) == 0


def test_no_call_that_arrives_while_the_service_is_stopped_is_lost() -> None:
    """One after the other since the signal: each is answered or refused, and the connection stays until then."""
    with service() as running, RawConnection(running.address) as caller:
        running.process.send_signal(signal.SIGTERM)
        for each in range(1, 11):
            caller.call(CHECK_TOOL, QUESTION.SerializeToString())
            assert len(caller.answers(each)) == each
        assert running.process.wait(120) == 0


def test_a_service_that_stops_reports_it_and_refuses_new_calls(tmp_path: Any) -> None:
    """On existing connections, while a call is in flight; the socket's file is removed at the end."""
    path = tmp_path / "s"
    with (
        service(address=f"unix:{path}") as running,
        RawConnection(running.address) as held,
        grpc.insecure_channel(running.address) as channel,
    ):
        health: Any = health_pb2_grpc.HealthStub(channel)
        stub = CallabilityServiceStub(channel)
        held.open_call(CHECK_TOOL)
        held.wait_until_read()
        watching = health.Watch(health_pb2.HealthCheckRequest(service=""))
        assert next(watching).status == health_pb2.HealthCheckResponse.SERVING
        running.process.send_signal(signal.SIGTERM)
        assert next(watching).status == health_pb2.HealthCheckResponse.NOT_SERVING
        refused: list[grpc.RpcError] = []

        def is_refused() -> bool:
            try:
                stub.CheckTool(QUESTION)
            except grpc.RpcError as error:
                refused.append(error)
            return bool(refused)

        eventually(is_refused)
        assert (refused[0].code(), reason_of(refused[0])) == (UNAVAILABLE, "SHUTTING_DOWN")
        status = health.Check(health_pb2.HealthCheckRequest(service="")).status
        assert status == health_pb2.HealthCheckResponse.NOT_SERVING
        held.close()
        assert running.process.wait(120) == 0
    assert not path.exists()


def test_callers_that_call_without_a_pause_are_refused_before_the_service_ends() -> None:
    """However short their calls are, so that none is in progress for most of the time."""

    async def last_reason(channel: grpc.aio.Channel) -> str:
        stub = CallabilityServiceStub(channel)
        while True:
            try:
                await stub.CheckTool(QUESTION)
            except grpc.aio.AioRpcError as error:
                return reason_of(error)
            await asyncio.sleep(_PAUSE)

    async def stop() -> list[str]:
        server = Server(checked_of("shipped"), Port("127.0.0.1:0"))
        await server.start()
        async with grpc.aio.insecure_channel(server.address) as channel:
            await CallabilityServiceStub(channel).CheckTool(QUESTION)
            callers = [asyncio.create_task(last_reason(channel)) for _ in range(5)]
            await server.stop()
            return await asyncio.gather(*callers)

    assert asyncio.run(stop()) == ["SHUTTING_DOWN"] * 5


def test_a_call_that_does_not_end_is_cut_after_the_grace_time() -> None:
    """Its caller learns that the service is gone, and no child process remains."""
    with service() as running, RawConnection(running.address) as held:
        held.open_call(CHECK_TOOL)
        held.wait_until_read()
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(120) == 0


def test_streams_that_watch_health_take_no_place_of_a_call() -> None:
    """As many as one connection may have: other callers are answered anyway."""
    with serving("--max-concurrent-calls", "4") as address, grpc.insecure_channel(address) as channel:
        health: Any = health_pb2_grpc.HealthStub(channel)
        watching = [health.Watch(health_pb2.HealthCheckRequest(service="")) for _ in range(2)]
        assert [next(each).status for each in watching] == [health_pb2.HealthCheckResponse.SERVING] * 2
        assert CallabilityServiceStub(channel).CheckTool(QUESTION).revision
        for each in watching:
            each.cancel()


def test_a_call_beyond_the_limit_is_refused_at_once() -> None:
    """With its reason; health is answered, and so are calls when others have ended."""
    with serving("--max-concurrent-calls", "2") as address, grpc.insecure_channel(address) as channel:
        stub, about_policy = CallabilityServiceStub(channel), PolicyServiceStub(channel)
        limits = about_policy.GetPolicy(policy_service_pb2.GetPolicyRequest()).limits
        assert limits.concurrent_calls == 2
        # They take long; if they end before the others have started, more are started.
        validations: list[grpc.Future[Any]] = []

        errors: list[grpc.RpcError] = []

        def is_refused() -> bool:
            while sum(not each.done() for each in validations) < 2:
                validations.append(about_policy.ValidatePolicy.future(SHIPPED))
            try:
                stub.CheckTool(QUESTION)
            except grpc.RpcError as error:
                errors.append(error)
            return bool(errors)

        eventually(is_refused)
        assert (errors[0].code(), reason_of(errors[0])) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_CALLS")
        health: Any = health_pb2_grpc.HealthStub(channel)
        assert health.Check(health_pb2.HealthCheckRequest()).status == health_pb2.HealthCheckResponse.SERVING
        for each in validations:
            each.cancel()

        def answers() -> bool:
            try:
                return bool(stub.CheckTool(QUESTION).revision)
            except grpc.RpcError as error:
                return reason_of(error) != "TOO_MANY_CALLS"

        eventually(answers)


@pytest.mark.parametrize("path", [CHECK_TOOL, "/grpc.health.v1.Health/Check"])
def test_a_call_that_never_sends_its_request_takes_no_place(path: str) -> None:
    """Nothing would return the memory: its caller may keep the connection open."""
    with (
        serving("--max-concurrent-calls", "2") as address,
        RawConnection(address) as held,
        grpc.insecure_channel(address) as channel,
    ):
        for _ in range(5):
            held.open_call(path)
        held.wait_until_read()
        assert CallabilityServiceStub(channel).CheckTool(QUESTION).revision


def test_the_limit_of_calls_is_stated(channel: grpc.Channel) -> None:
    """2,000 unless the command sets another number, and the bytes of each method's requests."""
    limits = PolicyServiceStub(channel).GetPolicy(policy_service_pb2.GetPolicyRequest()).limits
    assert (limits.concurrent_calls, limits.tools) == (2_000, 20_000)
    stated = {each.method.rpartition("/")[2]: each.request_bytes for each in limits.methods}
    assert stated == {
        "CheckTool": 204_800,
        "CheckTools": 4_194_304,
        "ExplainTool": 204_800,
        "ClassifyLoad": 73_728,
        "ClassifyEnable": 8_192,
        "GetPolicy": 8_192,
        "ValidatePolicy": 2_113_536,
        "WatchPolicy": 8_192,
    }


def test_a_flood_holds_up_no_call_of_another_connection(address: str) -> None:
    """Connections take turns: a call that comes after all others is answered while most of them wait."""
    with (
        grpc.insecure_channel(address, _OWN) as one,
        grpc.insecure_channel(address, _OWN) as two,
        grpc.insecure_channel(address, _OWN) as other,
    ):
        stub = CallabilityServiceStub(other)
        assert stub.CheckTools(_batch(1)).revision
        large = _batch(20_000)
        flood = [CallabilityServiceStub(each).CheckTools.future(large) for _ in range(30) for each in (one, two)]
        assert stub.CheckTools(_batch(100)).revision
        assert sum(not each.done() for each in flood) >= 40
        assert {_code(each) for each in flood} == {"OK"}


def test_a_flood_of_one_connection_is_refused_and_others_are_answered() -> None:
    """A connection has at most a quarter of the places for large requests, and of those that wait for one."""
    with (
        serving("--max-concurrent-calls", "10") as address,
        grpc.insecure_channel(address, _OWN) as flooding,
        grpc.insecure_channel(address, _OWN) as other,
    ):
        stub = CallabilityServiceStub(other)
        assert stub.CheckTools(_batch(1)).revision
        large = _batch(20_000)
        flood = [CallabilityServiceStub(flooding).CheckTools.future(large) for _ in range(100)]
        while not all(each.done() for each in flood):
            assert stub.CheckTools(_batch(100)).revision
        assert {_code(each) for each in flood} == {"OK", "RESOURCE_EXHAUSTED"}
        errors = [error for each in flood if isinstance(error := each.exception(), grpc.RpcError)]
        assert {reason_of(error) for error in errors} == {"TOO_MANY_CALLS"}
        said = "the service reads 16 such requests at a time, and 256 wait already, or 64 of this connection: try again"
        assert {error.details() for error in errors} == {said}


def test_none_of_very_many_calls_is_cancelled(address: str) -> None:
    """More than gRPC queues by itself: each is answered or refused with a reason."""

    async def ask() -> Counter[str]:
        codes: Counter[str] = Counter()
        async with grpc.aio.insecure_channel(address) as channel:
            stub = CallabilityServiceStub(channel)

            async def once() -> None:
                try:
                    await stub.CheckTool(QUESTION)
                    codes["OK"] += 1
                except grpc.aio.AioRpcError as error:
                    codes[error.code().name] += 1

            await asyncio.gather(*(once() for _ in range(4_000)))
        return codes

    codes = asyncio.run(ask())
    assert set(codes) <= {"OK", "RESOURCE_EXHAUSTED"}
    assert codes["OK"]


def test_calls_that_are_opened_and_reset_fail_no_call_of_another_connection(address: str) -> None:
    """20,000 of them on one connection."""

    async def ask() -> None:
        async with grpc.aio.insecure_channel(address) as channel:
            stub = CallabilityServiceStub(channel)
            await stub.CheckTool(QUESTION)
            with RawConnection(address) as attacker:
                attack = asyncio.create_task(asyncio.to_thread(attacker.open_and_reset, CHECK_TOOL, 20_000))
                while not attack.done():
                    assert (await stub.CheckTool(QUESTION)).revision
                await attack
            for _ in range(100):
                assert (await stub.CheckTool(QUESTION)).revision

    asyncio.run(ask())


def test_what_is_being_checked_ends_with_the_service() -> None:
    """A check of a policy that takes longer than the grace time leaves no process."""
    with service() as running, grpc.insecure_channel(running.address) as channel:
        call = PolicyServiceStub(channel).ValidatePolicy.future(LONG_CHECK)
        eventually(lambda: bool(children_of(running.process.pid)) or call.done())
        started = children_of(running.process.pid)
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(120) == 0
        eventually(lambda: not any(os.path.exists(f"/proc/{each}/exe") for each in started))
        assert _code(call) in {"OK", "UNAVAILABLE"}


def test_calls_that_wait_for_longer_than_half_a_minute_are_answered() -> None:
    """A busy process takes them late; how long a call may wait is for its caller to say."""
    ports: queue.Queue[tuple[str, asyncio.AbstractEventLoop]] = queue.Queue()
    over = threading.Event()

    async def serve() -> None:
        server = Server(checked_of("shipped"), Port("127.0.0.1:0"))
        await server.start()
        ports.put((server.address, asyncio.get_running_loop()))
        await asyncio.to_thread(over.wait)
        await server.stop()

    serving_thread = threading.Thread(target=asyncio.run, args=[serve()])
    serving_thread.start()
    try:
        address, loop = ports.get(timeout=120)
        with grpc.insecure_channel(address, _OWN) as channel:
            stub = CallabilityServiceStub(channel)
            assert stub.CheckTool(QUESTION).revision
            loop.call_soon_threadsafe(time.sleep, _LATE_SECONDS)
            calls = [stub.CheckTool.future(QUESTION) for _ in range(50)]
            assert Counter(map(_code, calls)) == {"OK": 50}
    finally:
        over.set()
        serving_thread.join(120)
