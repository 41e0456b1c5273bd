"""Deciding records again: the same verdict by the same policy, and each difference by another."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

import duckdb
import pytest

from callability.kernel.calls import EncodedCalls
from callability.kernel.policy import read
from callability.records.format import By, Ended
from callability.records.reading import RecordReading, sources_of
from callability.records.recorder import Call, Recorder, RecordLevel, RecordOptions
from callability.records.replay import Differences, Replay, record_in, request_of
from callability.records.writer import Destination
from callability.service.calls import ServedPolicy
from callability.v1 import callability_service_pb2 as pb
from callability.v1 import outcome_pb2
from support.bundles import DrawnRequests, bundle_of, checked_of
from support.checkout import ROOT
from support.commands import callability

DECIDED = Call(Ended.DECIDED, 0.0)


def _drawn(name: str, count: int) -> list[bytes]:
    """Return requests with any facts, about tools with any names, by agents or nobody."""
    drawn = DrawnRequests(read(bundle_of(name)).callability, 7)
    requests = [drawn.check_tool() for _ in range(count)]
    for number, request in enumerate(requests):
        if number % 3 == 0:
            request.tool = f'tool "{number % 11}"\\ é'
    return [request.SerializeToString() for request in requests]


def _recorded(directory: Path, name: str, requests: list[bytes]) -> list[bytes]:
    """Record decisions of a policy, and return the records."""
    calls = EncodedCalls(read(bundle_of(name)))
    recorder = Recorder(RecordOptions(Destination(str(directory)), RecordLevel.ALL), By.SERVICE)
    for data in requests:
        recorder.decided_tool(data, calls.check_tool(data), DECIDED)
    recorder.close()
    return [*RecordReading(sources_of([str(directory)])).lines()]


@pytest.mark.parametrize("name", ["shipped", "environments", "declared-facts"])
def test_a_record_decided_again_has_the_same_reply_to_the_bit(name: str, tmp_path: Path) -> None:
    """Whatever the facts are: known, unknown, or of another version."""
    requests = _drawn(name, 200)
    calls = EncodedCalls(read(bundle_of(name)))
    lines = _recorded(tmp_path, name, requests)
    decided = [record for line in lines if (record := record_in(line)) is not None]
    assert len(decided) == len(requests)
    for data, record in zip(requests, decided, strict=True):
        again = request_of(record, json.loads(record.facts)).SerializeToString()
        assert calls.check_tool(again) == calls.check_tool(data)
    found = Replay(read(bundle_of(name))).differences(lines, may_repeat=False)
    assert (found.decided, found.found, found.unfit) == (len(requests), Counter(), 0)


def test_a_line_of_another_writer_is_read_alike(tmp_path: Path) -> None:
    """The order of members means nothing, and unknown ones are ignored."""
    lines = _recorded(tmp_path, "shipped", _drawn("shipped", 100))[:-1]
    for line in lines:
        shuffled = dict(reversed(json.loads(line).items())) | {"later": [1]}
        one, other = record_in(line), record_in(json.dumps(shuffled).encode() + b"\n")
        assert one is not None
        assert other is not None
        assert one._replace(facts=b"") == other._replace(facts=b"")
        assert json.loads(one.facts) == json.loads(other.facts)


def test_a_member_that_a_record_lacks_is_shown_as_a_dash(tmp_path: Path) -> None:
    """And no filter finds it, whatever its value; other programs may write records too."""
    file = tmp_path / "records.jsonl"
    whole = {"kind": "decision", "time": "T", "question": "tool", "server": "git", "tool": "log", "agent": None}
    lines: list[dict[str, Any]] = [
        {"kind": "decision"},
        {**whole, "ended": "answered", "milliseconds": 1},
        {"kind": "change"},
    ]
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert callability("records", "show", str(file)).stdout.splitlines() == [
        "- - - of -",
        "T answered an agent git:log (1 ms)",
        "- changed -",
    ]
    assert callability("records", "show", str(file), "--agent", "None").stdout == ""
    file.write_text("{}\n")
    assert "(1 line was read)" in callability("records", "show", str(file)).stderr


def test_a_part_of_the_time_is_shown_with_the_policy_of_each_decision(tmp_path: Path) -> None:
    """From a time on, and before another one, as between an edit and its repair."""
    file = tmp_path / "records.jsonl"
    decision = {"kind": "decision", "question": "tool", "agent": "ada", "server": "git", "tool": "log"}
    decision |= {"ended": "refused", "status": "disabled_by_user", "rule": "user-off", "revision": 64 * "e"}
    times = [f"2026-11-26T14:{minute:02}:00.000Z" for minute in (2, 3, 19, 20)]
    file.write_text("".join(f"{json.dumps({**decision, 'time': time})}\n" for time in times))
    shown = callability("records", "show", str(file), "--since", "2026-11-26T14:03Z", "--until", "2026-11-26T14:20Z")
    said = "refused agent ada git:log: disabled_by_user by user-off, policy eeeeeeeeeeee"
    assert shown.stdout.splitlines() == [f"{time} {said}" for time in times[1:3]]
    assert "`--until` must be a time" in callability("records", "show", str(file), "--until", "14:20").stderr
    for name in ("log", "git:log"):
        assert len(callability("records", "show", str(file), "--tool", name).stdout.splitlines()) == len(times)
    for option in (("--tool", "gti:log"), ("--agent", "eve"), ("--until", times[0])):
        nothing = callability("records", "show", str(file), *option)
        assert (nothing.stdout, nothing.stderr) == ("", "no record is as the options say\n")


def test_each_decision_that_another_policy_makes_otherwise_is_found(tmp_path: Path) -> None:
    """The command counts all of them, by both statuses and both rules, and exits as `diff` does."""
    requests = _drawn("shipped", 300)
    (tmp_path / "records").mkdir(mode=0o700)
    _recorded(tmp_path / "records", "shipped", requests)
    (tmp_path / "other.bundle").write_bytes(bundle_of("environments"))
    command = "records", "replay", str(tmp_path / "records"), "--against", str(tmp_path / "other.bundle")
    again = callability(*command, "--json")
    assert again.returncode == 1, again.stderr
    answer: dict[str, Any] = json.loads(again.stdout)
    both = [EncodedCalls(read(bundle_of(name))) for name in ("shipped", "environments")]
    pairs = Counter(
        tuple(pb.CheckToolResponse.FromString(calls.check_tool(data)).verdict.status for calls in both)
        for data in requests
    )
    wanted = sum(number for (before, after), number in pairs.items() if before != after)
    assert answer["changed"] == sum(change["decisions"] for change in answer["changes"]) == wanted > 0
    assert f"{wanted:,} of {len(requests)} decisions would have another status" in callability(*command).stdout


@pytest.mark.parametrize("groups", [1, 7, 65_536])
def test_equal_decisions_count_as_often_as_they_are_there(
    groups: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many are counted at once; one that a gateway has recorded too counts once."""
    monkeypatch.setattr("callability.records.replay.MAX_GROUPS", groups)
    lines = _recorded(tmp_path, "shipped", _drawn("shipped", 300))[:-1]
    other = Replay(read(bundle_of("environments")))
    many = [line for number, line in enumerate(lines) for _ in range(number % 4)]
    Random(5).shuffle(many)
    found = other.differences(many, may_repeat=False)
    wanted = Differences()
    for number, line in enumerate(lines):
        record = record_in(line)
        assert record is not None
        if number % 4:
            wanted.add(record, other.again(record), number % 4)
    assert (found.decided, found.found, found.rules) == (wanted.decided, wanted.found, wanted.rules)
    assert found.found.total() > 0
    of_gateway = [line.replace(b'"by":"service"', b'"by":"gateway"') for line in lines]
    both = other.differences([*of_gateway, *lines], may_repeat=True)
    assert (both.decided, both.repeated) == (len(lines), len(lines))


def test_loads_and_enables_are_decided_again_without_their_texts(tmp_path: Path) -> None:
    """What was read of the text of an error is recorded, and the text is not."""
    calls = EncodedCalls(read(bundle_of("shipped")))
    recorder = Recorder(RecordOptions(Destination(str(tmp_path)), RecordLevel.ALL), By.SERVICE)
    texts = ("connection refused by very-secret", "read timed out: very-secret", "401 Unauthorized very-secret", "")
    for text in texts:
        data = pb.ClassifyLoadRequest(error_text=text).SerializeToString()
        recorder.decided_load("s", "", data, calls.classify_load(data), 0.0)
    data = pb.ClassifyEnableRequest(facts=outcome_pb2.EnableFacts(known=False)).SerializeToString()
    recorder.decided_enable("s", "a", data, calls.classify_enable(data), 0.0)
    recorder.close()
    lines = [*RecordReading(sources_of([str(tmp_path)])).lines()]
    assert b"very-secret" not in b"".join(lines)
    found = Replay(read(bundle_of("shipped"))).differences(lines, may_repeat=False)
    assert (found.decided, found.found) == (len(texts) + 1, Counter())


def test_discovery_reaches_no_code_of_records(tmp_path: Path) -> None:
    """Neither at a service that records everything, nor a line is written."""
    recorder = Recorder(RecordOptions(Destination(str(tmp_path)), RecordLevel.ALL), By.SERVICE)
    answers = ServedPolicy(checked_of("shipped"), recorder=recorder).answers
    called: set[str] = set()

    def profile(frame: FrameType, event: str, _: object) -> None:
        called.add(frame.f_code.co_filename)

    sys.setprofile(profile)
    try:
        asyncio.run(_answered(answers["CheckTools"](b"")))
        asyncio.run(_answered(answers["ExplainTool"](_drawn("shipped", 1)[0])))
    finally:
        sys.setprofile(None)
    assert any(name.endswith("byte_calls.py") for name in called)
    assert not [name for name in called if "/callability/records/" in name]
    asyncio.run(_answered(answers["CheckTool"](_drawn("shipped", 1)[0])))
    recorder.close()
    assert recorder.writer.written == 1


async def _answered(answer: Any) -> bytes:
    reply: bytes = await answer
    return reply


def test_duckdb_reads_records_as_they_are(tmp_path: Path) -> None:
    """The query of the page runs."""
    lines = _recorded(tmp_path, "shipped", _drawn("shipped", 100))
    page = (ROOT / "docs" / "records.md").read_text()
    query = page.partition("```sql\n")[2].partition("```")[0].replace("records/*.jsonl", f"{tmp_path}/*.jsonl")
    with duckdb.connect() as connection:
        rows = connection.execute(query).fetchall()
    refused = [record for line in lines if (record := record_in(line)) and record.status != "callable"]
    assert sum(row[-1] for row in rows) == len(refused) > 0
