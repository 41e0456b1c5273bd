"""The remote client on real replicas: attempts, health, and what a failure looks like."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from threading import Event
from typing import Any

import grpc
import pytest

from callability.adapter import ALL_SERVERS, UnknownTool
from callability.client import (
    NO_RECORD,
    BlockingClient,
    Client,
    ClientClosed,
    Credentials,
    InvalidRequest,
    Inventory,
    PolicyUnavailable,
)
from callability.process.address import AddressRefused
from callability.v1 import callability_service_pb2 as pb
from callability.v1.facts_pb2 import Annotations, Labels, ServerFacts, ToolFacts
from callability.v1.verdict_pb2 import TOOL_STATUS_DISABLED_BY_USER
from support.callers import token_entry, write_callers
from support.clients import KINDS, Caller, Recorded, Replica, calling, replicas
from support.raw_http2 import RawConnection
from support.running import service, unused_port
from support.services import SWITCHED_OFF
from support.waiting import SECONDS, eventually

ATTEMPT_SECONDS = 3
"""How long a stopped replica holds a call up; one that is only busy answers within that time."""


@pytest.fixture(scope="module")
def two() -> Iterator[list[Replica]]:
    """Two replicas; a test leaves them running, or starts them again."""
    with replicas(2) as running:
        yield running


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Which client is used."""
    return str(request.param)


def _remote(kind: str, running: list[Replica], hooks: Any = None, **options: Any) -> AbstractContextManager[Caller]:
    addresses = [replica.address for replica in running]
    return calling(kind, lambda client: client.remote(addresses, hooks=hooks, **options))


def _states(caller: Caller) -> list[str]:
    return [str(state) for state in caller.client.replica_states.values()]


def _reported(recorded: Recorded, replica: Replica, event: str) -> Callable[[], bool]:
    return lambda: (event, replica.address) in [(name, fields.get("replica")) for name, fields in recorded.events]


def test_each_call_of_the_contract_is_answered(kind: str, two: list[Replica]) -> None:
    """By the messages of the stubs."""
    with _remote(kind, two) as caller:
        revision = caller.check().revision
        assert caller.check().verdict.status == TOOL_STATUS_DISABLED_BY_USER
        assert caller.do("check_tools", pb.CheckToolsRequest()).revision == revision
        assert caller.do("explain_tool", pb.ExplainToolRequest(server="s", tool="t")).verdict.undetermined
        assert caller.do("classify_load", pb.ClassifyLoadRequest()).revision == revision
        assert caller.do("classify_enable", pb.ClassifyEnableRequest()).revision == revision
        assert caller.do("get_policy").revision == revision


def test_an_inventory_larger_than_a_request_is_judged(kind: str, two: list[Replica]) -> None:
    """With 19 MiB of labels, and a tool that is too large for any request."""
    labels = Labels(values={f"key-{number}": "x" * 500 for number in range(60)})
    inventory = Inventory()
    inventory.put_server("s", ServerFacts(enabled=True, quarantined=False, labels=Labels()))
    facts = ToolFacts(config_denied=False, approval=NO_RECORD, annotations=Annotations(), labels=labels)
    inventory.replace_tools("s", dict.fromkeys((*map(str, range(650)), "x" * 100_000), facts))
    with _remote(kind, two, attempt_seconds=SECONDS) as caller:
        judgement = caller.do("judge", inventory, visible=ALL_SERVERS)
    assert [len(judgement.callable), len(judgement.locked)] == [650, 1]


def test_replicas_that_serve_take_turns(kind: str, two: list[Replica]) -> None:
    """Neither of them does all the work."""
    recorded = Recorded()
    with _remote(kind, two, recorded) as caller:
        for _ in range(10):
            caller.check()
    used = [labels["replica"] for name, _, labels in recorded.figures if name.endswith("attempts_total")]
    assert [used.count(replica.address) for replica in two] == [5, 5]


def test_a_call_of_a_stopped_replica_is_answered_by_another(kind: str, two: list[Replica]) -> None:
    """The replica is not called first again until it says that it serves."""
    recorded = Recorded()
    with _remote(kind, two, recorded, attempt_seconds=ATTEMPT_SECONDS) as caller:
        eventually(lambda: _states(caller) == ["serving", "serving"])
        with two[0].stopped():
            for _ in range(6):
                caller.check()
            assert _states(caller) == ["suspect", "serving"]
            assert recorded.codes().count("DEADLINE_EXCEEDED") == 1
        eventually(lambda: _states(caller) == ["serving", "serving"])


def test_a_call_in_flight_at_a_killed_replica_is_answered_by_another(kind: str, two: list[Replica]) -> None:
    """Decisions are idempotent, so that calling twice does no harm."""
    recorded = Recorded()
    with _remote(kind, two, recorded, attempt_seconds=SECONDS) as caller:
        eventually(lambda: _states(caller) == ["serving", "serving"])
        two[0].process.send_signal(19)
        calls = [caller.start("check_tool", pb.CheckToolRequest(server="s", tool="t")) for _ in range(2)]
        two[0].kill()
        try:
            assert all(isinstance(wait(), pb.CheckToolResponse) for wait in calls)
            assert recorded.codes().count("OK") == 2
            eventually(lambda: _states(caller) == ["down", "serving"])
        finally:
            two[0].restart()
        eventually(lambda: _states(caller) == ["serving", "serving"])
        assert _reported(recorded, two[0], "replica_down")()


def test_a_replica_that_drains_is_not_called_first(kind: str, two: list[Replica]) -> None:
    """It reports that it does not serve before it refuses calls."""
    recorded = Recorded()
    with _remote(kind, two, recorded) as caller:
        eventually(lambda: _states(caller) == ["serving", "serving"])
        two[0].process.terminate()
        try:
            eventually(lambda: _states(caller) == ["down", "serving"])
            for _ in range(4):
                caller.check()
        finally:
            two[0].close()
            two[0].restart()
    last = [labels["replica"] for name, _, labels in recorded.figures if name.endswith("attempts_total")][-4:]
    assert set(last) == {two[1].address}


def test_without_a_replica_there_is_no_answer_and_the_reason_is_safe_to_show(kind: str) -> None:
    """The text names no address."""
    address = f"127.0.0.1:{unused_port()}"
    with calling(kind, lambda client: client.remote([address], attempt_seconds=0.5)) as caller:
        with pytest.raises(PolicyUnavailable) as caught:
            caller.check()
        assert caught.value.code == "UNAVAILABLE"
        assert str(caught.value) == "the policy service gave no answer (UNAVAILABLE)"


@pytest.fixture
def long_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine takes its time to end a process, and longer to start one."""
    monkeypatch.setattr("callability.client.replicas.PATIENCE_SECONDS", SECONDS)


@pytest.mark.usefixtures("long_moment")
def test_a_replica_that_starts_again_answers_the_waiting_call(kind: str, two: list[Replica]) -> None:
    """The second attempt waits for the only replica, which was there a moment ago."""
    with _remote(kind, two[:1], attempt_seconds=SECONDS) as caller:
        eventually(lambda: _states(caller) == ["serving"])
        two[0].kill()
        wait = caller.start("check_tool", pb.CheckToolRequest(server="s", tool="t"))
        two[0].restart()
        assert isinstance(wait(), pb.CheckToolResponse)


@pytest.mark.usefixtures("long_moment")
def test_the_only_address_is_called_again_while_a_replica_behind_it_stops(kind: str) -> None:
    """It refuses calls until it has stopped, and another one answers at the address: no call is lost."""
    recorded, lost, ending = Recorded(), list[str](), Event()
    with (
        service("--reuse-port") as first,
        RawConnection(first.address) as held,
        calling(kind, lambda client: client.remote([first.address], hooks=recorded, attempt_seconds=SECONDS)) as caller,
    ):
        caller.check()
        held.open_call("/callability.v1.CallabilityService/CheckTool")
        held.wait_until_read()

        def call() -> None:
            while not ending.is_set():
                try:
                    caller.check()
                except PolicyUnavailable as error:
                    lost.append(error.code)

        with service("--reuse-port", address=first.address), ThreadPoolExecutor(1) as pool:
            calls = pool.submit(call)
            try:
                # It cannot end while a call is open, and refuses others meanwhile.
                first.process.terminate()
                eventually(lambda: recorded.codes().count("UNAVAILABLE") >= 3)
                held.close()
                assert first.process.wait(SECONDS) == 0
            finally:
                ending.set()
            calls.result()
        assert recorded.codes()[-1] == "OK"
    assert lost == []


def test_an_invalid_request_is_not_sent_twice(kind: str, two: list[Replica]) -> None:
    """Another replica would refuse it too."""
    recorded = Recorded()
    with _remote(kind, two, recorded) as caller, pytest.raises(InvalidRequest, match="1,000 bytes"):
        caller.do("check_tool", pb.CheckToolRequest(server="s" * 1_000, tool="t"))
    assert recorded.codes() == ["INVALID_ARGUMENT"]


def test_a_proxy_of_the_environment_is_not_used(kind: str, two: list[Replica], monkeypatch: pytest.MonkeyPatch) -> None:
    """It could not reach this machine's loopback."""
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{unused_port()}")
    with _remote(kind, two) as caller:
        assert caller.check().revision


_CHECK_TOOL = {"method": "CheckTool", "path": "callability.v1.CallabilityService/CheckTool"}


def test_hooks_receive_events_figures_and_spans(kind: str, two: list[Replica]) -> None:
    """A span has the method, and what it yields is sent with the call."""
    recorded = Recorded()
    with _remote(kind, two, recorded) as caller:
        caller.check()
        eventually(lambda: recorded.saw("replica_serving"))
    assert recorded.spans == [("callability.CheckTool", _CHECK_TOOL)]
    seconds = [(value, labels) for name, value, labels in recorded.figures if name.endswith("call_seconds")]
    assert [labels for _, labels in seconds] == [{"method": "CheckTool", "outcome": "ok"}]
    assert seconds[0][0] > 0


class _Broken:
    """Hooks whose every method raises."""

    def log(self, level: int, event: str, fields: Mapping[str, Any]) -> None:
        raise RuntimeError("log")

    def metric(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        raise RuntimeError("metric")

    def span(self, name: str, attributes: Mapping[str, Any]) -> AbstractContextManager[tuple[tuple[str, str], ...]]:
        raise RuntimeError("span")


def test_a_hook_that_raises_fails_no_call(kind: str, two: list[Replica], caplog: pytest.LogCaptureFixture) -> None:
    """The error is in the log."""
    with caplog.at_level(logging.ERROR), _remote(kind, two, _Broken()) as caller:
        assert caller.check().revision
    assert "a hook failed" in caplog.text


def test_a_closed_client_says_so(kind: str, two: list[Replica]) -> None:
    """And is closed twice without harm."""
    with _remote(kind, two) as caller:
        caller.check()
        caller.do("close")
        with pytest.raises(ClientClosed):
            caller.check()


def test_a_task_that_is_cancelled_while_the_client_is_closed_is_cancelled() -> None:
    """A group of tasks that ends with its client reports no error of theirs."""

    async def story(address: str) -> None:
        client = Client.remote([address])
        async with asyncio.TaskGroup() as group:
            waiting = [group.create_task(client.get_policy()) for _ in range(2)]
            await asyncio.sleep(0)
            for each in waiting:
                each.cancel()
            await client.close()
        assert all(each.cancelled() for each in waiting)

    with socket.create_server(("127.0.0.1", 0)) as silent:
        asyncio.run(story(f"127.0.0.1:{silent.getsockname()[1]}"))


def test_a_closed_client_leaves_nothing_to_the_next_event_loop() -> None:
    """With gRPC, the end of a call that outlives its event loop is an error of the next one in the process."""
    errors: list[Any] = []

    async def story(address: str) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context.get("exception")))
        async with Client.remote([address]) as client:
            waiting = asyncio.create_task(client.get_policy())
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await client.get_policy()
        with pytest.raises(ClientClosed):
            await waiting

    with socket.create_server(("127.0.0.1", 0)) as silent:
        for _ in range(50):
            asyncio.run(story(f"127.0.0.1:{silent.getsockname()[1]}"))
    assert not errors


def test_a_token_is_read_for_each_attempt_and_its_failure_is_no_answer(kind: str, two: list[Replica]) -> None:
    """So that a token can be renewed."""
    tokens = iter(("one", "two"))
    with _remote(kind, two, credentials=Credentials(token=lambda: next(tokens, "three"))) as caller:
        caller.check()
    assert next(tokens, "none left") == "none left"

    def unreadable() -> str:
        raise OSError("no such file")

    with _remote(kind, two, credentials=Credentials(token=unreadable)) as caller:
        with pytest.raises(PolicyUnavailable, match="token") as caught:
            caller.check()
        assert caught.value.code == "UNAUTHENTICATED"


def test_the_line_break_at_the_end_of_a_token_file_is_not_sent(kind: str, tmp_path: Path) -> None:
    """No header can have one: gRPC would say `INTERNAL: Invalid metadata` of every call."""
    callers = write_callers(tmp_path, proxy={"tokens": [token_entry("good")], "may": ["check"]})
    with service("--callers", str(callers)) as running:
        for token in ("good\n", lambda: " good\r\n"):
            with calling(kind, _client_of(running.address, Credentials(token=token))) as caller:
                assert caller.check().verdict.rule == "user-off"


@pytest.mark.parametrize("token", ["", "\n", "two words", "a\nb", "\u00fc"])
def test_a_token_that_cannot_be_sent_is_reported_without_it(kind: str, two: list[Replica], token: str) -> None:
    """And no replica counts as lost for it."""
    recorded = Recorded()
    with _remote(kind, two, recorded, credentials=Credentials(token=token)) as caller:
        with pytest.raises(PolicyUnavailable, match=r"^the token for the policy service cannot be sent$") as caught:
            caller.check()
        assert (caught.value.code, caught.value.details) == (
            "UNAUTHENTICATED",
            "it must have one or more visible ASCII characters, and no others",
        )
    assert recorded.saw("token_unreadable")
    assert not recorded.saw("attempt_failed")


def _client_of(address: str, credentials: Credentials) -> Callable[[Any], Client | BlockingClient]:
    return lambda client: client.remote([address], credentials=credentials)


@pytest.mark.parametrize("client", [Client, BlockingClient])
def test_addresses_that_cannot_be_used_are_refused(client: type[Client] | type[BlockingClient]) -> None:
    """Without TLS, what is sent to another machine could be read on the way."""
    with pytest.raises(AddressRefused, match="not be encrypted"):
        client.remote(["policy.example:7420"])
    assert client.remote(["policy.example:7420"], credentials=Credentials(channel=grpc.ssl_channel_credentials()))
    for addresses in ([], "127.0.0.1:7420", ["127.0.0.1:7420", "127.0.0.1:7420"]):
        with pytest.raises(ValueError, match="address"):
            client.remote(addresses)
    with pytest.raises(ValueError, match="attempt_seconds"):
        client.remote(["127.0.0.1:7420"], attempt_seconds=0)
    with pytest.raises(ValueError, match="channel"):
        Credentials(server_name="policy")


def test_credentials_do_not_show_their_token() -> None:
    """In a log or a traceback."""
    assert "secret" not in repr(Credentials(token="secret"))


def test_an_inventory_is_judged_over_the_wire(kind: str, two: list[Replica]) -> None:
    """What has not changed is not in a request; one tool is decided for a call."""
    inventory = Inventory()
    inventory.put_server("git", SWITCHED_OFF.server_facts)
    inventory.put_tool("git", "reset", SWITCHED_OFF.tool_facts)
    with _remote(kind, two) as caller:
        judgement = caller.do("judge", inventory, visible=ALL_SERVERS)
        assert [tool.status for tool in judgement.locked] == ["disabled_by_user"]
        assert caller.do("judge", inventory, visible=ALL_SERVERS) is judgement
        assert caller.do("judge", inventory, visible=()).tools == ()
        assert caller.do("check", inventory, "git", "reset").verdict.status == TOOL_STATUS_DISABLED_BY_USER
        assert caller.do("check", inventory, "git", "none") == UnknownTool("git:none")
