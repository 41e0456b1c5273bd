"""Bad edits and bad requests to a running server: it keeps answering by a valid policy, and keeps nothing of them."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from hypothesis import given

from callability.compiler.policy import Check
from callability.files.policy_source import source_in
from callability.v1 import policy_service_pb2 as pb
from callability.v1.callability_service_pb2_grpc import CallabilityServiceStub
from callability.v1.policy_service_pb2_grpc import PolicyServiceStub
from support.checkout import SUPPORT
from support.hostile import MORE, bounded, judged, mutated
from support.policies import SMALLEST, policy_text, write_policy
from support.running import COMMAND
from support.services import SWITCHED_OFF
from support.waiting import eventually

MOST_KIB = 4 * 1024
"""How much the memory of a server may grow over a few edits, after a warm-up."""
EDITS = 5
WARM = 2


def drawn_edits(count: int) -> list[dict[str, bytes]]:
    """Return files as a hostile author would write them."""
    edits: list[dict[str, bytes]] = []

    @bounded(count)
    @given(mutated())
    def draw(files: dict[str, bytes]) -> None:
        edits.append(files)

    draw()
    return edits


class Attacked:
    """A server of a policy in a directory that is edited, while a client sends requests."""

    def __init__(self, process: int, channel: grpc.Channel, directory: Path) -> None:
        self._process, self._directory = process, directory
        self._health: Any = health_pb2_grpc.HealthStub(channel)
        self._policy = PolicyServiceStub(channel)
        self._ask = CallabilityServiceStub(channel).CheckTool
        self.sound = {self._policy.GetPolicy(pb.GetPolicyRequest()).revision}
        self.failed: list[grpc.RpcError] = []
        self.answered: set[str] = set()

    @contextmanager
    def loaded_with_calls(self) -> Iterator[None]:
        """Send requests in a thread."""
        over = Event()

        def ask() -> None:
            while not over.wait(0.01):
                try:
                    self.answered.add(self._ask(SWITCHED_OFF).revision)
                except grpc.RpcError as error:
                    self.failed.append(error)

        thread = Thread(target=ask)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def edit(self, files: dict[str, bytes], check: Check) -> None:
        """Write files, with the smallest possible other files, and wait until they have been checked."""
        if check.policy:
            self.sound.add(check.policy.revision)
        every = {name: text.encode() for name, text in SMALLEST.items()} | files
        for path in set(self._directory.iterdir()) - {self._directory / name for name in every}:
            path.unlink()
        for name, data in every.items():
            beside = self._directory / f"{name}.new"
            beside.write_bytes(data)
            beside.replace(self._directory / name)
        revision = source_in(self._directory).revision

        def looked_at() -> bool:
            reply = self._policy.GetPolicy(pb.GetPolicyRequest())
            assert reply.revision in self.sound
            if check.policy:
                return not reply.HasField("rejected_edit") and reply.revision == revision
            return reply.HasField("rejected_edit") and reply.rejected_edit.revision == revision

        eventually(looked_at)
        assert self._health.Check(health_pb2.HealthCheckRequest()).status == health_pb2.HealthCheckResponse.SERVING

    def validate(self, files: dict[str, bytes], check: Check) -> None:
        """Send files to be checked."""
        every = {name: text.encode() for name, text in SMALLEST.items()} | files
        sent = [pb.PolicyFile(name=name, data=data) for name, data in every.items()]
        reply = self._policy.ValidatePolicy(pb.ValidatePolicyRequest(files=sent))
        assert reply.sound is (check.policy is not None)
        assert {each.code for each in reply.findings} == {each.code for each in check.findings}

    def puzzle(self, put: Callable[[Path], object]) -> None:
        """Put something beside the rules that is not a file, wait until it is refused, and remove it."""
        path = self._directory / "enable_outcome_test.yaml"
        put(path)
        eventually(lambda: self._policy.GetPolicy(pb.GetPolicyRequest()).HasField("rejected_edit"))
        path.unlink()
        eventually(lambda: not self._policy.GetPolicy(pb.GetPolicyRequest()).HasField("rejected_edit"))

    def memory(self) -> int:
        """Return its resident memory in KiB."""
        pages = int(Path(f"/proc/{self._process}/statm").read_text().split()[1])
        return pages * resource.getpagesize() // 1024


@contextmanager
def attacked(command: Sequence[str], directory: Path) -> Iterator[Attacked]:
    """Serve the policy in a directory with a program that serves."""
    arguments = [*command, "serve", "--policy", str(directory), "--address", "127.0.0.1:0"]
    with (
        (directory.parent / "service.log").open("w") as log,
        subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip().removeprefix("listening on ")
            with grpc.insecure_channel(address) as channel:
                yield Attacked(process.pid, channel, directory)
        finally:
            process.terminate()
            process.communicate(timeout=120)


def grown(server: Attacked, edits: Sequence[dict[str, bytes]], *, validate: bool) -> int:
    """Make bad and good edits in turn, and return how much the memory grew after the first ones, in KiB."""
    memory = 0
    for number, files in enumerate(edits):
        if number == min(WARM, len(edits) - 1):
            memory = server.memory()
        check = judged(files)
        server.edit(files, check)
        if validate:
            server.validate(files, check)
        good = {"callability.yaml": f"# {number}\n{policy_text({})}".encode()}
        server.edit(good, judged(good))
    return server.memory() - memory


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A valid policy."""
    made = tmp_path / "policy"
    made.mkdir()
    return write_policy(made, policy_text({}))


@pytest.mark.repeated
def test_bad_edits_and_requests_leave_a_server_as_it_is(directory: Path, note: Callable[[str], None]) -> None:
    """It serves a valid policy, fails no call, and its memory does not grow."""
    with attacked(COMMAND, directory) as server:
        with server.loaded_with_calls():
            kib = grown(server, drawn_edits(EDITS), validate=True)
            # A file that blocks would delay every later edit, and so would one that cannot be watched.
            server.puzzle(os.mkfifo)
            server.puzzle(lambda path: path.symlink_to(path))
        note(f"memory grew by {kib} KiB over {EDITS * MORE - WARM} bad edits, as many good ones and as many requests")
        assert server.failed == []
        assert server.answered <= server.sound
        assert len(server.answered) > 2
        assert kib < MOST_KIB * MORE


@pytest.mark.repeated
def test_a_server_that_keeps_what_it_checked_is_found_out(directory: Path, note: Callable[[str], None]) -> None:
    """By the growth of its memory over one edit."""
    with attacked((sys.executable, str(SUPPORT / "leaking.py")), directory) as server:
        kib = grown(server, drawn_edits(EDITS)[: WARM + 1], validate=False)
        note(f"memory of a server that keeps what it checked grew by {kib} KiB over 1 edit")
        assert kib > MOST_KIB
