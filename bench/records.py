"""What records and a candidate cost the service a call, and how long a million records take to be decided again."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory
from time import perf_counter

import grpc

from bench import python_client
from bench.check_tool import GENERATOR, IN_FLIGHT, PATH
from bench.launched import launched
from bench.report import Aim, Aimed, Row
from bench.rounds import Figures, Rounds
from bench.serving import SERVICE, Served, served
from bench.workload import about_one_each
from callability.compiler.bundle_writing import checked_policy
from callability.compiler.policy import load
from callability.files.shipped_policy import shipped_policy
from callability.kernel.calls import EncodedCalls
from callability.kernel.policy import read
from callability.process.address import DIRECT
from callability.records.format import By, Ended
from callability.records.recorder import Call, Recorder, RecordLevel, RecordOptions
from callability.records.writer import Destination
from callability.v1 import callability_service_pb2 as pb
from callability.v1.verdict_pb2 import TOOL_STATUS_CALLABLE

PART = "records"

_CALLS = 1_000
_TURNS = 4
_REFUSED = 10
"""One call in so many is refused."""
_LINES = 1_000_000
_TOOLS = 20_000
"""Tools of the million records, as many as records may wait to be written; each has facts of its own."""
_ROUNDS = 3
"""A round of a million records takes about ten seconds."""


@dataclass(frozen=True, slots=True)
class _Subject:
    """A service as it is run, and its aim against one without records."""

    arguments: tuple[str, ...] = ()
    aim: Aim | None = None


@dataclass(frozen=True, slots=True)
class _Question:
    """A request, and its reply."""

    request: bytes
    reply: bytes


_OFF = "no records"
_UNREAD = "records that nobody reads"
"""On standard output, whose pipe and queue are full."""
_LARGE_CALLS = 600
_LARGE_LABELS = {f"key-{number}": "v" * 512 for number in range(64)}
"""So many calls with such labels fill the queue."""
_ONE_AT_A_TIME = 500
_SUBJECTS = {
    _OFF: _Subject(),
    "records of what is refused": _Subject(("--records", "{}/refused"), Aim(1.05)),
    "records of all calls": _Subject(("--records", "{}/all", "--record-level", "all"), Aim(1.15)),
    _UNREAD: _Subject(("--records", "-", "--record-level", "all")),
    "a candidate": _Subject(("--shadow", "{}/candidate"), Aim(1.15)),
}


def rows(rounds: Rounds) -> list[Row]:
    """Measure the CPU of the service a call with one call in ten refused, and `records replay`."""
    return [*_calls(rounds), *_replay(rounds)]


def _calls(rounds: Rounds) -> Iterator[Row]:
    with TemporaryDirectory() as directory, ExitStack() as stack:
        _write_candidate(Path(directory, "candidate"))
        servers = {
            name: stack.enter_context(
                served(SERVICE, *(each.format(directory) for each in subject.arguments), quiet=True)
            )
            for name, subject in _SUBJECTS.items()
        }
        channel = stack.enter_context(grpc.insecure_channel(servers[_OFF].address, [DIRECT]))
        questions = _questions(python_client.as_bytes(channel, PATH))
        unread = stack.enter_context(grpc.insecure_channel(servers[_UNREAD].address, [DIRECT]))
        _fill(python_client.as_bytes(unread, PATH), questions[0])
        turns, calls = rounds.repetitions(_TURNS), max(_REFUSED, rounds.repetitions(_CALLS))
        subjects: dict[str, Callable[[], Figures]] = {
            "cpu": partial(_mixed, servers, questions, turns, calls),
            "p99": partial(
                _slowest, {_OFF: channel, _UNREAD: unread}, questions[0], rounds.repetitions(_ONE_AT_A_TIME)
            ),
        }
        both = rounds.interleaved(PART, subjects)
    measured, waits = both["cpu"], both["p99"]
    for name, subject in _SUBJECTS.items():
        values = tuple(1e6 * value for value in measured[name])
        against = tuple(1e6 * value for value in measured[_OFF]) if subject.aim else None
        what = f"{name}, one call in {_REFUSED} refused, server CPU {IN_FLIGHT}"
        yield Row(PART, what, "µs a call", values, against, subject.aim)
    alone, beside = (tuple(1e6 * value for value in waits[name]) for name in (_OFF, _UNREAD))
    yield Row(PART, f"{_OFF}, p99 at 1 in flight", "µs", alone)
    yield Row(PART, f"{_UNREAD}, p99 at 1 in flight", "µs", beside, alone, Aim(1.10))


def _fill(call: grpc.UnaryUnaryMultiCallable[bytes, bytes], question: _Question) -> None:
    """Make records until the pipe and the queue of a service that nobody reads are full."""
    request = pb.CheckToolRequest.FromString(question.request)
    request.tool_facts.labels.values.update(_LARGE_LABELS)
    data = request.SerializeToString()
    for _ in range(_LARGE_CALLS):
        call(data)


def _slowest(channels: Mapping[str, grpc.Channel], question: _Question, calls: int) -> Figures:
    """Return the p99 of the round trips of each service; they take turns at each call."""
    taken: dict[str, list[float]] = {name: [] for name in channels}
    by_name = {name: python_client.as_bytes(channel, PATH) for name, channel in channels.items()}
    for _ in range(calls):
        for name, call in by_name.items():
            started = perf_counter()
            call(question.request)
            taken[name].append(perf_counter() - started)
    return {name: quantiles(found, n=100, method="inclusive")[-1] for name, found in taken.items()}


def _write_candidate(directory: Path) -> None:
    """Write a policy that locks a tool more than the shipped one."""
    directory.mkdir()
    for file in shipped_policy().glob("*.yaml"):
        (directory / file.name).write_text(file.read_text())
    rules = directory / "callability.yaml"
    before, mark, after = rules.read_text().partition("  - {id: user-off,")
    more = (
        "  - {id: more, when: {tool.name: no_such_tool}, status: disabled_by_config, action: 'Ask to {edit_policy}.'}\n"
    )
    rules.write_text(before + more + mark + after)


def _questions(call: grpc.UnaryUnaryMultiCallable[bytes, bytes]) -> tuple[_Question, _Question]:
    """Return a question about a callable tool, and one about a tool that is not."""
    found: dict[bool, _Question] = {}
    for request in islice(about_one_each(100), 100):
        data = request.SerializeToString()
        reply = call(data)
        good = pb.CheckToolResponse.FromString(reply).verdict.status == TOOL_STATUS_CALLABLE
        found.setdefault(good, _Question(data, reply))
    return found[True], found[False]


def _mixed(servers: Mapping[str, Served], questions: tuple[_Question, _Question], turns: int, calls: int) -> Figures:
    """Return the CPU time of a call for each server; they take turns."""
    cpu = dict.fromkeys(servers, 0.0)
    for _ in range(turns):
        for name, server in servers.items():
            before = server.cpu_seconds()
            for question, number in zip(questions, (calls - calls // _REFUSED, calls // _REFUSED), strict=True):
                GENERATOR.calls_per_second(
                    server.address, PATH, question.request, question.reply, calls=number, connections=2, streams=8
                )
            cpu[name] += server.cpu_seconds() - before
    return {name: seconds / (turns * calls) for name, seconds in cpu.items()}


def _replay(rounds: Rounds) -> Iterator[Row]:
    count = rounds.repetitions(_LINES)
    with TemporaryDirectory() as directory:
        _write_candidate(Path(directory, "candidate"))
        path = Path(directory, "records.jsonl")
        _write_records(path, count)
        size = path.stat().st_size
        command = ["records", "replay", str(path), "--against", str(Path(directory, "candidate"))]
        measured = replace(rounds, count=min(rounds.count, _ROUNDS)).interleaved(
            f"{PART}: replay", {PART: partial(_run, command)}
        )[PART]
    what = f"`records replay` of {count:,} records, {size / count:,.0f} bytes a line, facts of {_TOOLS:,} tools"
    yield Row(PART, what, "s", measured["s"], aim=Aim(20, Aimed.VALUE))
    yield Row(PART, f"{what}, CPU", "s", measured["CPU"])
    yield Row(PART, f"{what}, peak memory", "MiB", measured["MiB"], aim=Aim(500, Aimed.VALUE))


def _run(command: list[str]) -> Figures:
    done = launched("callability", command)
    if done.code:
        raise RuntimeError(f"`records replay` left with exit code {done.code}")
    return {"s": done.seconds, "CPU": done.cpu_seconds, "MiB": done.mebibytes}


def _write_records(path: Path, count: int) -> None:
    """Write decisions in a drawn order, with a number and an id of their own; the last tools have few records."""
    bodies = [*_bodies(path.with_name("bodies"), min(count, _TOOLS))]
    source = random.Random(1)
    with path.open("w", encoding="ascii") as file:
        for number in range(1, count + 1):
            record = bodies[int(len(bodies) * source.random() ** 2)] | {"id": f"{number:032x}"}
            text = json.dumps({"v": 1, "n": number, **record}, separators=(",", ":"))
            file.write(text + "\n")


def _bodies(directory: Path, count: int) -> Iterator[dict[str, object]]:
    """Yield what a service would write about so many tools, each with a label that no other has."""
    calls = EncodedCalls(read(checked_policy(load(shipped_policy(), engine=None)).bundle))
    destination = Destination(str(directory))
    destination.check()
    recorder = Recorder(RecordOptions(destination, RecordLevel.ALL), By.SERVICE)
    for number, request in enumerate(islice(about_one_each(count), count)):
        request.tool_facts.labels.values["owner"] = f"team-{number}"
        data = request.SerializeToString()
        recorder.decided_tool(data, calls.check_tool(data), Call(Ended.DECIDED, number / 1e6))
    recorder.close()
    [written] = directory.glob("*.jsonl")
    for line in written.read_text().splitlines()[:-1]:
        yield {name: value for name, value in json.loads(line).items() if name not in ("v", "n")}
