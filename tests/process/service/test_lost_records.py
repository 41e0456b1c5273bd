"""What records cost when they cannot be written: records, which are counted, and never an answer."""

from __future__ import annotations

import json
import re
import resource
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc

from callability.v1 import callability_service_pb2 as pb
from callability.v1.callability_service_pb2_grpc import CallabilityServiceStub
from support.commands import callability
from support.running import Service, service
from support.services import SWITCHED_OFF
from support.waiting import eventually

CALLS = 60
LARGE = pb.CheckToolRequest.FromString(SWITCHED_OFF.SerializeToString())
"""A request whose record has about 36 KB, so that few of them fill the queue."""
LARGE.tool_facts.labels.values.update({f"key-{number}": "v" * 512 for number in range(64)})


class Recording:
    """A service that writes records, and what it counts of them."""

    def __init__(self, running: Service, log: Path, channel: grpc.Channel) -> None:
        self.process = running.process
        self._log = log
        self._check = CallabilityServiceStub(channel).CheckTool

    def call(self, number: int, request: pb.CheckToolRequest = SWITCHED_OFF) -> None:
        """Call so often; each call has its answer."""
        for _ in range(number):
            assert self._check(request).verdict.rule == "user-off"

    def counted(self, what: str) -> int:
        """Return how many records are `written` or `dropped`."""
        [url] = re.findall(r"metrics are on (\S+)", self._log.read_text())
        with urllib.request.urlopen(url, timeout=120) as answer:
            [value] = re.findall(rf"(?m)^callability_records_{what}_total (\S+)", answer.read().decode())
        return int(float(value))

    def settle(self, records: int) -> None:
        """Wait until so many records are written or lost."""
        eventually(lambda: self.counted("written") + self.counted("dropped") == records)


@contextmanager
def recording(place: Path | str, log: Path) -> Iterator[Recording]:
    """Run a service with records."""
    arguments = ("--records", str(place), "--metrics-address", "127.0.0.1:0")
    with service(*arguments, log=log) as running, grpc.insecure_channel(running.address) as channel:
        yield Recording(running, log, channel)


def _read(*directories: Path) -> dict[str, Any]:
    done = callability("records", "stats", *map(str, directories), "--json")
    assert done.returncode == 0, done.stderr
    counted: dict[str, Any] = json.loads(done.stdout)["reading"]
    return counted


def test_a_full_disk_costs_records_that_are_counted_and_no_answer(tmp_path: Path) -> None:
    """While there is no room, and not afterwards; whole lines are left, and the log says that records are lost."""
    log = tmp_path / "log"
    with recording(tmp_path / "records", log) as service_:
        service_.call(CALLS)
        service_.settle(CALLS)
        [file] = (tmp_path / "records").glob("*.jsonl")
        # As a disk that is full within the next line.
        before = resource.prlimit(service_.process.pid, resource.RLIMIT_FSIZE, (file.stat().st_size + 100, -1))
        service_.call(CALLS)
        service_.settle(2 * CALLS)
        assert (service_.counted("written"), service_.counted("dropped")) == (CALLS, CALLS)
        resource.prlimit(service_.process.pid, resource.RLIMIT_FSIZE, before)
        service_.call(CALLS)
        service_.settle(3 * CALLS)
    found = _read(tmp_path / "records")
    assert (found["records"], found["lost"], found["damaged_lines"]) == (2 * CALLS + 1, CALLS, 0)
    assert "records are lost: file too large" in log.read_text()


def test_two_processes_in_one_directory_lose_nothing_but_what_a_killed_one_had_not_written(tmp_path: Path) -> None:
    """The one that was killed is counted, and so is the end of its file; the other one goes on."""
    directory = tmp_path / "records"
    with recording(directory, tmp_path / "one") as one, recording(directory, tmp_path / "other") as other:
        for service_ in (one, other):
            service_.call(CALLS)
            service_.settle(CALLS)
        one.call(CALLS)
        one.process.kill()
        one.process.wait()
        other.call(CALLS)
        other.settle(2 * CALLS)
    found = _read(directory)
    ours = 2 * CALLS + 1
    assert ours + CALLS <= found["records"] <= ours + 2 * CALLS
    assert (found["files"], found["lost"], found["processes_without_an_end"]) == (2, 0, 1)
    assert found["damaged_lines"] == found["torn_lines"] <= 1


def test_a_copy_counts_once_and_what_is_missing_is_counted_wherever_it_was(tmp_path: Path) -> None:
    """At the start of a file too; of a file under another name, it is said that nobody can know."""
    directory = tmp_path / "records"
    with recording(directory, tmp_path / "log") as service_:
        service_.call(CALLS)
        service_.settle(CALLS)
    [file] = directory.glob("*.jsonl")
    lines = file.read_bytes().splitlines(keepends=True)
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / file.name).write_bytes(b"".join(lines[: CALLS // 2]))
    found = _read(copy, directory)
    assert (found["records"], found["copied_records"], found["lost"]) == (CALLS + 1, CALLS // 2, 0)
    (copy / file.name).write_bytes(b"".join([*lines[3:5], *lines[6:]]))
    found = _read(copy)
    assert (found["records"], found["lost"], found["unchecked_files"]) == (CALLS - 3, 4, 0)
    (copy / file.name).rename(copy / "evidence.jsonl")
    found = _read(copy)
    assert (found["records"], found["lost"], found["unchecked_files"]) == (CALLS - 3, 0, 1)
    (copy / file.name).touch()
    assert _read(copy)["processes_without_an_end"] == 1


def test_standard_output_that_nobody_reads_costs_records_that_are_counted_and_no_answer(tmp_path: Path) -> None:
    """Once the pipe and the queue are full, every further record is dropped."""
    with recording("-", tmp_path / "log") as service_:
        calls = 0
        while not service_.counted("dropped"):
            service_.call(CALLS, LARGE)
            calls += CALLS
        dropped = service_.counted("dropped")
        service_.call(CALLS, LARGE)
        assert service_.counted("dropped") == dropped + CALLS
        assert service_.counted("written") < calls
