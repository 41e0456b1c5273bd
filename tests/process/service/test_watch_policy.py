"""The policy as a stream of bundles: at once, after each edit, and heartbeats; until the service stops."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from callability.kernel.calls import LocalCalls
from callability.kernel.policy import read
from callability.service import calls
from callability.service.server import Port, Server
from callability.v1.policy_service_pb2 import GetPolicyRequest, WatchPolicyRequest, WatchPolicyResponse
from callability.v1.policy_service_pb2_grpc import PolicyServiceStub
from support.bundles import bundle_of, checked_of
from support.checkout import POLICY
from support.edits import replace
from support.services import SWITCHED_OFF, reason_of, served
from support.waiting import SECONDS

WATCHERS = 100
NONE = WatchPolicyRequest()
RENAMED = "switched-off"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A policy to edit: the shipped one, with tests that do not name the rule that is renamed."""
    made = Path(shutil.copytree(POLICY, tmp_path / "policy"))
    tests = made / "callability_test.yaml"
    tests.write_text(tests.read_text().replace(", rule: user-off", ""))
    return made


def _rename(rules: Path) -> None:
    replace(rules, rules.read_text().replace("id: user-off,", f"id: {RENAMED},"))


def _rule(message: WatchPolicyResponse) -> str:
    """Return the rule that decides by the bundle of a message about a tool that its user switched off."""
    policy = read(message.bundle)
    assert (policy.revision, policy.digest) == (message.revision, message.bundle_digest)
    return LocalCalls(policy).check_tool(SWITCHED_OFF).verdict.rule


async def _next(call: Any) -> WatchPolicyResponse:
    async with asyncio.timeout(SECONDS):
        message = await call.read()
    assert isinstance(message, WatchPolicyResponse)
    return message


async def _next_bundle(call: Any) -> WatchPolicyResponse:
    while not (message := await _next(call)).bundle:
        pass
    return message


async def _to_its_end(call: Any) -> None:
    while True:
        await _next(call)


def test_every_watcher_gets_the_policy_at_once_and_each_edit(directory: Path) -> None:
    """A hundred of them, on connections of their own; a client decides from it as the service does."""

    async def watch(address: str, started: asyncio.Semaphore) -> tuple[str, str]:
        async with grpc.aio.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
            call = PolicyServiceStub(channel).WatchPolicy(NONE)
            first = await _next_bundle(call)
            started.release()
            return _rule(first), _rule(await _next_bundle(call))

    async def story(address: str, rules: Path) -> list[tuple[str, str]]:
        started = asyncio.Semaphore(0)
        watching = [asyncio.create_task(watch(address, started)) for _ in range(WATCHERS)]
        for _ in range(WATCHERS):
            async with asyncio.timeout(SECONDS):
                await started.acquire()
        _rename(rules)
        return await asyncio.gather(*watching)

    with served(directory) as service:
        assert asyncio.run(story(service.address, service.rules)) == [("user-off", RENAMED)] * WATCHERS
        assert service.rule() == RENAMED


def test_the_policy_that_is_reported_names_the_bundle_that_is_streamed(directory: Path) -> None:
    """By its digest; a watcher that has it gets no bundle, and one that has another gets it."""
    with served(directory) as service:
        digest = service.policy().bundle_digest
        assert len(digest) == 64
        stub = PolicyServiceStub(service.channel)
        for known, expected in (("", True), (digest, False), ("0" * 64, True)):
            call = stub.WatchPolicy(WatchPolicyRequest(bundle_digest=known))
            message = next(call)
            assert (message.bundle_digest, bool(message.bundle)) == (digest, expected)
            call.cancel()


@asynccontextmanager
async def _server(concurrent_calls: int = 100) -> AsyncIterator[tuple[Server, grpc.aio.Channel]]:
    """Yield a server of the shipped policy in this process, and a channel to it."""
    port = Port("127.0.0.1:0")
    server = Server(checked_of("shipped"), port, concurrent_calls=concurrent_calls)
    await server.start()
    async with grpc.aio.insecure_channel(server.address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
        try:
            yield server, channel
        finally:
            await server.stop()


def test_a_heartbeat_confirms_the_policy_without_its_bundle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within the seconds that the first message states."""
    monkeypatch.setattr(calls, "HEARTBEAT_SECONDS", 1)

    async def story() -> None:
        async with _server() as (_, channel):
            call = PolicyServiceStub(channel).WatchPolicy(NONE)
            first, *others = [await _next(call) for _ in range(3)]
            assert (first.heartbeat_seconds, first.bundle) == (1, bundle_of("shipped"))
            first.ClearField("bundle")
            assert others == [first, first]
            call.cancel()

    asyncio.run(story())


def test_streams_end_when_the_service_stops_and_hold_it_up_by_nothing() -> None:
    """With a reason by which a client asks another instance."""

    async def story() -> list[tuple[grpc.StatusCode, str | None]]:
        async with _server() as (server, channel):
            stub = PolicyServiceStub(channel)
            watching = [stub.WatchPolicy(NONE) for _ in range(10)]
            for call in watching:
                await _next(call)
            stopping = asyncio.create_task(server.stop())
            ended = []
            for call in watching:
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await _to_its_end(call)
                ended.append((caught.value.code(), caught.value.details()))
            await stopping
            return ended

    assert asyncio.run(story()) == [(grpc.StatusCode.UNAVAILABLE, "the service is shutting down")] * 10


def test_streams_take_no_place_of_a_call_and_are_bounded_themselves() -> None:
    """Calls are answered beside them. A connection has at most half of the places, and leaves some to the next."""

    async def story() -> None:
        own = [("grpc.use_local_subchannel_pool", 1)]
        async with (
            _server(concurrent_calls=4) as (server, channel),
            grpc.aio.insecure_channel(server.address, own) as other,
        ):
            stub = PolicyServiceStub(channel)
            watching = [stub.WatchPolicy(NONE) for _ in range(2)]
            for call in watching:
                await _next(call)
            assert (await stub.GetPolicy(GetPolicyRequest())).bundle_digest
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await _next(stub.WatchPolicy(NONE))
            assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert "this connection has its share of 2" in str(caught.value.details())
            assert (await _next(PolicyServiceStub(other).WatchPolicy(NONE))).bundle
            watching[0].cancel()
            watching[1].cancel()

    asyncio.run(story())


def test_watchers_of_health_take_no_place_of_a_watcher_of_the_policy() -> None:
    """Health needs no token: anyone who can connect may open any number of streams."""

    async def story() -> None:
        async with _server(concurrent_calls=4) as (server, channel):
            own = [("grpc.use_local_subchannel_pool", 1)]
            strangers = [grpc.aio.insecure_channel(server.address, own) for _ in range(4)]
            watches: list[Any] = [each.unary_stream("/grpc.health.v1.Health/Watch") for each in strangers * 2]
            watching = [watch(b"") for watch in watches]
            served = await asyncio.gather(*(each.read() for each in watching), return_exceptions=True)
            assert sum(isinstance(each, bytes) for each in served) == 4
            assert (await _next(PolicyServiceStub(channel).WatchPolicy(NONE))).bundle
            for each in watching:
                each.cancel()
            for stranger in strangers:
                await stranger.close()

    asyncio.run(story())


def test_a_request_that_is_malformed_ends_the_stream(directory: Path) -> None:
    """With the status that every call has."""
    with served(directory) as service:
        for request, reason in ((b"\xff", "REQUEST_MALFORMED"), (b"\x0a" * 100_000, "REQUEST_TOO_LARGE")):
            watch: Any = service.channel.unary_stream("/callability.v1.PolicyService/WatchPolicy")
            call = watch(request)
            with pytest.raises(grpc.RpcError) as caught:
                next(call)
            assert (caught.value.code(), reason_of(caught.value)) == (grpc.StatusCode.INVALID_ARGUMENT, reason)
