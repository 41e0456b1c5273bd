"""A service with several workers: one port, one revision, one endpoint of metrics, and none of them is missed."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import shutil
import signal
import subprocess
import threading
import urllib.request
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import uvloop

from callability.service.workers import LOOK_SECONDS, SILENT_SECONDS, InstanceOptions, Workers
from callability.v1.callability_service_pb2_grpc import CallabilityServiceStub
from callability.v1.policy_service_pb2 import GetPolicyRequest
from callability.v1.policy_service_pb2_grpc import PolicyServiceStub
from support.bundles import EXAMPLES, SHIPPED, checked_of, policy_of
from support.callers import tls_channel, token_entry, write_callers
from support.certificates import Authority
from support.checkout import POLICY
from support.commands import callability
from support.running import Service, service
from support.services import SWITCHED_OFF
from support.waiting import becomes, eventually

OWN = (("grpc.use_local_subchannel_pool", 1),)
SECONDS = 120


class Served:
    """A service with two workers, its policy and its log."""

    def __init__(self, running: Service, directory: Path, log: Path) -> None:
        self.process = running.process
        self.address = running.address
        self.rules = directory / "callability.yaml"
        self._log = log

    @property
    def log(self) -> str:
        """What was logged up to now."""
        return self._log.read_text()

    def values(self, name: str) -> dict[str, float]:
        """Return the values of a metric by its labels."""
        url = re.search(r"metrics are on (\S+)", self.log)
        assert url is not None
        with urllib.request.urlopen(url[1], timeout=SECONDS) as answer:
            lines = answer.read().decode().splitlines()
        found = (re.match(rf"{name}(?:{{(.*)}})? (\S+)$", line) for line in lines)
        return {each[1] or "": float(each[2]) for each in found if each}

    def revisions(self, connections: int = 16) -> Counter[str]:
        """Return the revision of answers over so many connections, which the system spreads."""
        return revisions(self.address, connections)

    def processes(self) -> list[int]:
        """Return the processes of the workers."""
        return processes_of(self.process.pid)


def revisions(address: str, connections: int = 16) -> Counter[str]:
    """Return the revision of answers over so many connections, which the system spreads."""
    found: Counter[str] = Counter()
    for _ in range(connections):
        with grpc.insecure_channel(address, OWN) as channel:
            stub = CallabilityServiceStub(channel)
            found[stub.CheckTool(SWITCHED_OFF, timeout=SECONDS, wait_for_ready=True).revision] += 1
    return found


def processes_of(supervisor: int) -> list[int]:
    """Return the processes of the workers of a supervisor."""
    tasks = Path(f"/proc/{supervisor}/task").glob("*/children")
    children = sorted((each for task in tasks for each in task.read_text().split()), key=int)
    return [int(each) for each in children if b"service.worker" in Path(f"/proc/{each}/cmdline").read_bytes()]


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Served]:
    """Two workers of a policy in a directory."""
    directory, log = tmp_path / "policy", tmp_path / "log"
    shutil.copytree(POLICY, directory, ignore=shutil.ignore_patterns("schema", "examples"))
    arguments = ("--workers", "2", "--policy", str(directory), "--metrics-address", "127.0.0.1:0")
    with service(*arguments, log=log) as running:
        yield Served(running, directory, log)


def test_all_workers_answer_on_one_port_and_are_measured_at_one_endpoint(workers: Served) -> None:
    """Each series has the number of its worker; the sum is that of all calls."""
    answered = 0

    def both() -> bool:
        nonlocal answered
        answered += workers.revisions(8).total()
        calls = workers.values("callability_calls_total")
        return sum(n > 0 for labels, n in calls.items() if 'code="OK",method="CheckTool"' in labels) == 2

    eventually(both)
    calls = workers.values("callability_calls_total")
    assert sum(n for labels, n in calls.items() if 'method="CheckTool"' in labels) == answered
    assert workers.values("callability_workers_running") == {"": 2}
    assert {'worker="1"', 'worker="2"', 'worker="supervisor"'} == workers.values("process_resident_memory_bytes").keys()


def test_an_edit_is_checked_once_and_decides_in_all_workers(workers: Served) -> None:
    """So does the next one; one with errors is refused in all, and each of them says so."""
    [first] = workers.revisions()
    good = workers.rules.read_text()
    workers.rules.write_text(f"{good}\n# another revision\n")
    eventually(lambda: first not in workers.revisions())
    [second] = workers.revisions()
    workers.rules.write_text(f"{good}\nbad: 1\n")
    eventually(lambda: workers.log.count("the edit of the policy is refused") == 2)
    for _ in range(8):
        with grpc.insecure_channel(workers.address, OWN) as channel:
            policy = PolicyServiceStub(channel).GetPolicy(GetPolicyRequest(), timeout=SECONDS)
            assert policy.revision == second
            assert "[unknown-key]" in policy.rejected_edit.findings[0]
    assert [*workers.values("callability_policy_broken").values()] == [1, 1]
    os.kill(workers.processes()[0], signal.SIGKILL)
    eventually(lambda: workers.values("callability_worker_restarts_total") == {"": 1})
    eventually(lambda: [*workers.values("callability_policy_broken").values()] == [1, 1])


def test_a_worker_that_is_killed_is_started_again_with_the_current_policy(workers: Served) -> None:
    """The other one answers meanwhile; callers that retry miss nothing."""
    [first] = workers.revisions()
    workers.rules.write_text(f"{workers.rules.read_text()}\n# another revision\n")
    eventually(lambda: first not in workers.revisions())
    [second] = workers.revisions()
    killed, other = workers.processes()
    os.kill(killed, signal.SIGKILL)
    assert workers.revisions() == {second: 16}
    eventually(lambda: workers.values("callability_workers_running") == {"": 2})
    assert workers.values("callability_worker_restarts_total") == {"": 1}
    assert other in workers.processes()
    assert killed not in workers.processes()
    assert workers.revisions() == {second: 16}
    assert f"has ended with code -{signal.SIGKILL}" in workers.log


def _now(look: Callable[[], object]) -> Callable[[], Awaitable[object]]:
    async def looked() -> object:
        return look()

    return looked


def test_an_edit_decides_even_if_a_worker_is_killed_while_it_loads_the_edit() -> None:
    """The other one loads it, and the one that is started again begins with it."""

    async def story() -> None:
        workers = Workers(InstanceOptions("127.0.0.1:0"), 2, checked_of(SHIPPED))
        async with workers.run(), asyncio.timeout(SECONDS):
            first, second = processes_of(os.getpid())
            await workers.accept(checked_of(EXAMPLES[0]))
            os.kill(first, signal.SIGKILL)
            await becomes(_now(lambda: workers.running), {1: 2, 2: 2})
            assert second in processes_of(os.getpid())
            assert await asyncio.to_thread(revisions, workers.address) == {policy_of(EXAMPLES[0]).revision: 16}

    uvloop.run(story())


def test_a_worker_that_hangs_is_replaced_and_no_new_connection_waits_for_it(workers: Served) -> None:
    """It is noticed without an edit: a connection that the system gives to it is answered by nobody."""
    hanging, other = workers.processes()
    os.kill(hanging, signal.SIGSTOP)
    eventually(lambda: workers.values("callability_worker_restarts_total") == {"": 1})
    eventually(lambda: workers.values("callability_workers_running") == {"": 2})
    assert hanging not in workers.processes()
    assert other in workers.processes()
    assert workers.revisions().total() == 16
    assert "worker 1 does not answer" in workers.log or "worker 2 does not answer" in workers.log


def test_a_pause_of_the_first_process_is_not_held_against_its_workers(workers: Served) -> None:
    """It looks at what they sent meanwhile."""
    before = workers.processes()
    pause = 2 * (SILENT_SECONDS + LOOK_SECONDS)
    os.kill(workers.process.pid, signal.SIGSTOP)
    threading.Event().wait(pause)
    os.kill(workers.process.pid, signal.SIGCONT)
    good = workers.rules.read_text()
    [first] = workers.revisions()
    workers.rules.write_text(f"{good}\n# another revision\n")
    eventually(lambda: first not in workers.revisions())
    assert workers.processes() == before
    assert workers.values("callability_worker_restarts_total") == {"": 0}


def test_an_edit_reaches_a_worker_that_is_replaced_since_it_hangs() -> None:
    """The other one does not wait for it."""

    async def story() -> None:
        workers = Workers(InstanceOptions("127.0.0.1:0"), 2, checked_of(SHIPPED))
        async with workers.run(), asyncio.timeout(SECONDS):
            hanging, _ = processes_of(os.getpid())
            os.kill(hanging, signal.SIGSTOP)
            await workers.accept(checked_of(EXAMPLES[0]))
            await becomes(_now(lambda: 2 in workers.running.values()), wanted=True)
            await becomes(_now(lambda: workers.running), {1: 2, 2: 2})
            assert hanging not in processes_of(os.getpid())
            assert await asyncio.to_thread(revisions, workers.address) == {policy_of(EXAMPLES[0]).revision: 16}

    uvloop.run(story())


def test_a_worker_that_cannot_be_started_is_started_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system may have no process left for a moment."""
    failing: list[str] = []
    start = subprocess.Popen

    def started(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        if failing:
            raise BlockingIOError(errno.EAGAIN, failing.pop())
        return start(*arguments, **options)

    async def story() -> None:
        workers = Workers(InstanceOptions("127.0.0.1:0"), 1, checked_of(SHIPPED))
        async with workers.run(), asyncio.timeout(SECONDS):
            failing.append("Resource temporarily unavailable")
            os.kill(processes_of(os.getpid())[0], signal.SIGKILL)
            await becomes(_now(lambda: (workers.restarts, len(workers.running))), (2, 1))

    monkeypatch.setattr(subprocess, "Popen", started)
    uvloop.run(story())


def test_a_worker_whose_callers_are_refused_is_named_and_starts_once_they_are_correct(tmp_path: Path) -> None:
    """The other one serves meanwhile, by the callers of before."""
    path, log = write_callers(tmp_path, gateway={"tokens": [token_entry("x" * 32)], "may": ["check"]}), tmp_path / "log"
    good = path.read_text()
    with service("--workers", "2", "--metrics-address", "127.0.0.1:0", "--callers", str(path), log=log) as running:
        served = Served(running, tmp_path, log)
        path.write_text('{"callers": 5}')
        eventually(lambda: served.log.count("the edit of the callers is refused") == 2)
        os.kill(served.processes()[0], signal.SIGKILL)
        eventually(lambda: re.search(r"callers\.json:1:13: .*; it is started again", served.log))
        assert re.search(r"worker \d cannot serve: .*callers\.json:1:13: .*; it is started again", served.log)
        path.write_text(good)
        eventually(lambda: served.values("callability_workers_running") == {"": 2})


def test_a_stop_drains_all_workers(workers: Served) -> None:
    """No process is left, and the exit code is 0."""
    processes = workers.processes()
    workers.process.terminate()
    assert workers.process.wait(SECONDS) == 0
    assert not [each for each in processes if Path(f"/proc/{each}").exists()]
    assert "Traceback" not in workers.log


def test_workers_end_when_their_supervisor_is_killed(workers: Served) -> None:
    """Nobody would hand them edits."""
    processes = workers.processes()
    workers.process.kill()
    workers.process.wait(SECONDS)
    eventually(lambda: not [each for each in processes if Path(f"/proc/{each}/cmdline").exists()])


def test_a_unix_socket_has_one_process(tmp_path: Path) -> None:
    """More are refused."""
    for option in (("--workers", "2"), ("--reuse-port",)):
        done = callability("serve", "--address", f"unix:{tmp_path}/s", *option)
        assert (done.returncode, "needs HOST:PORT" in done.stderr) == (2, True), done.stderr


def test_workers_speak_tls_and_follow_their_certificates(tmp_path: Path) -> None:
    """Each reads them again by itself."""
    authority, other = Authority(tmp_path, "known"), Authority(tmp_path, "other")
    pair = authority.pair("server")
    tls = ("--tls-certificate", str(pair.certificate), "--tls-key", str(pair.key))

    def answered(trusted: Authority) -> bool:
        with tls_channel(running.address, trusted.path) as channel:
            try:
                return bool(CallabilityServiceStub(channel).CheckTool(SWITCHED_OFF, timeout=SECONDS).revision)
            except grpc.RpcError:
                return False

    with service("--workers", "2", *tls) as running:
        assert all(answered(authority) for _ in range(6))
        pair.replace_by(other.pair("next"))
        eventually(lambda: all(answered(other) for _ in range(6)))


def test_a_connection_is_closed_at_its_age_and_a_call_on_it_is_answered() -> None:
    """The client connects again, which lets a balancer in front choose again."""
    idle = threading.Event()
    with service("--max-connection-age", "1") as running, grpc.insecure_channel(running.address, OWN) as channel:
        stub = CallabilityServiceStub(channel)
        assert stub.CheckTool(SWITCHED_OFF, timeout=SECONDS).revision

        def watch(state: grpc.ChannelConnectivity) -> None:
            if state is grpc.ChannelConnectivity.IDLE and seen:
                idle.set()
            seen.append(state)

        seen: list[grpc.ChannelConnectivity] = []
        channel.subscribe(watch)
        assert idle.wait(SECONDS)
        assert stub.CheckTool(SWITCHED_OFF, timeout=SECONDS, wait_for_ready=True).revision


def test_a_second_instance_takes_over_the_port() -> None:
    """Both say that they share it; callers that retry once miss no answer."""
    retry = '{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 5, "initialBackoff": "0.05s",'
    retry += ' "maxBackoff": "1s", "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]}}]}'
    stopping, failed, answered = threading.Event(), list[str](), list[str]()

    def ask(address: str) -> None:
        while not stopping.is_set():
            with grpc.insecure_channel(address, (*OWN, ("grpc.service_config", retry))) as channel:
                try:
                    reply = CallabilityServiceStub(channel).CheckTool(
                        SWITCHED_OFF, timeout=SECONDS, wait_for_ready=True
                    )
                    answered.append(reply.revision)
                except grpc.RpcError as error:
                    failed.append(str(error))

    with service("--reuse-port") as first:
        refused = callability("serve", "--address", first.address)
        assert (refused.returncode, "address already in use" in refused.stderr) == (2, True)
        caller = threading.Thread(target=ask, args=(first.address,))
        caller.start()
        try:
            with service("--reuse-port", address=first.address):
                before = len(answered)
                first.process.terminate()
                assert first.process.wait(SECONDS) == 0
                eventually(lambda: len(answered) > before + 20)
                stopping.set()
                caller.join(SECONDS)
        finally:
            stopping.set()
    assert failed == []
