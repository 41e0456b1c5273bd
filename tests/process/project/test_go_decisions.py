"""The Go package answers drawn requests as the service does: verdicts, explanations, outcomes of loads and enables."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToJson
from google.protobuf.message import Message
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from callability.kernel.calls import EncodedCalls, LocalCalls
from callability.kernel.policy import read
from callability.records.format import By, Ended, schema
from callability.records.reading import RecordReading, sources_of
from callability.records.recorder import Call, Recorder, RecordLevel, RecordOptions
from callability.records.replay import Replay, record_in, request_of
from callability.records.writer import Destination
from callability.v1 import callability_service_pb2 as pb
from support.bundles import DECLARING, POLICIES, SHIPPED, DrawnRequests, bundle_of
from support.checkout import ROOT
from support.drawing import share
from support.go_bundles import go_bundles
from support.go_client import OUT_OF_REACH
from support.go_comparison import built, compared
from support.path_vectors import DIRECTORY, NAMES

DRAWN = int(os.environ.get("CALLABILITY_DRAWN", share(2_000)))
"""Requests for each policy."""
needs_go = pytest.mark.skipif(shutil.which("go") is None, reason="the Go toolchain is not on this machine")


def test_the_bundles_of_the_go_tests_are_those_of_the_policies() -> None:
    """`python -m support.go_bundles` writes them."""
    assert [path.name for path, data in go_bundles() if path.read_bytes() != data] == []


@needs_go
@pytest.mark.parametrize("name", POLICIES)
def test_go_explains_drawn_requests_as_python_does(name: str, tmp_path: Path) -> None:
    """Bit for bit, from the same bundle, for requests that reach every part of the rules."""
    _compare_explanations(bundle_of(name), tmp_path)


@needs_go
@pytest.mark.parametrize("name", [SHIPPED, DECLARING])
def test_a_record_decided_again_has_the_same_verdict_in_python_and_go(name: str, tmp_path: Path) -> None:
    """Bit for bit, whichever of them wrote the record; those of Go are valid too."""
    calls = EncodedCalls(read(bundle_of(name)))
    drawn = DrawnRequests(calls.policy.callability, seed=16)
    (tmp_path / "python").mkdir(mode=0o700)
    recorder = Recorder(RecordOptions(Destination(str(tmp_path / "python")), RecordLevel.ALL), By.CLIENT)
    for _ in range(DRAWN):
        data = drawn.check_tool().SerializeToString()
        recorder.decided_tool(data, calls.check_tool(data), Call(Ended.DECIDED, 0.0))
    recorder.close()
    ours = _records(tmp_path / "python")
    requests = [request_of(record, json.loads(record.facts)) for line in ours if (record := record_in(line))]
    _replayed(tmp_path, bundle_of(name), "ExplainTool", requests, tmp_path / "go")
    theirs = _records(tmp_path / "go")
    validator = Draft202012Validator(schema())
    for one, other in zip(ours, theirs, strict=True):
        validator.validate(json.loads(other))
        assert _verdict(one) == _verdict(other)
    again = Replay(calls.policy).differences(theirs, may_repeat=False)
    assert (again.decided, again.unfit, again.found) == (DRAWN, 0, Counter())


def _records(directory: Path) -> list[bytes]:
    return [*RecordReading(sources_of([str(directory)])).lines()]


def _verdict(line: bytes) -> dict[str, Any]:
    """Return what a record says, but for when it was written."""
    varying = ("time", "id", "milliseconds", "facts")
    return {name: value for name, value in json.loads(line).items() if name not in varying}


@needs_go
@pytest.mark.parametrize("name", NAMES)
def test_go_finds_the_paths_that_python_does(name: str, tmp_path: Path) -> None:
    """By policies whose first path gets stuck."""
    _compare_explanations((DIRECTORY / f"{name}.bundle").read_bytes(), tmp_path)


def _compare_explanations(bundle: bytes, directory: Path) -> None:
    calls = LocalCalls(read(bundle))
    drawn = DrawnRequests(calls.policy.callability, seed=14)
    requests = [drawn.check_tool() for _ in range(DRAWN)]
    answers = _replayed(directory, bundle, "ExplainTool", requests)
    for request, answer in zip(requests, answers, strict=True):
        explain = pb.ExplainToolRequest.FromString(request.SerializeToString())
        wanted = _answer(calls.explain_tool(explain)) | {"remaining": _remaining(calls.check_tool(request))}
        assert {key: value or None for key, value in answer.items()} == {
            key: value or None for key, value in wanted.items()
        }, MessageToJson(request)


@needs_go
@pytest.mark.parametrize("name", POLICIES)
def test_go_asks_a_service_and_decides_as_the_reference_does(name: str, program: Path, tmp_path: Path) -> None:
    """`python -m support.go_comparison` compares a million facts of each policy."""
    assert compared(name, DRAWN, 14, program, tmp_path) >= DRAWN


@needs_go
def test_go_classifies_drawn_loads_and_enables_as_python_does(tmp_path: Path) -> None:
    """Status, rule and words, whatever a proxy knows; the text of an error is for a service. So do records."""
    calls = LocalCalls(read(bundle_of(SHIPPED)))
    drawn = DrawnRequests(calls.policy.callability, seed=15)
    loads = [pb.ClassifyLoadRequest(signals=drawn.load().signals) for _ in range(DRAWN)]
    enables = [drawn.enable() for _ in range(DRAWN)]
    records = tmp_path / "records"
    answers = _replayed(tmp_path, bundle_of(SHIPPED), "ClassifyLoad", loads, records)
    for load, answer in zip(loads, answers, strict=True):
        assert answer == _outcome(calls.classify_load(load)), MessageToJson(load)
    answers = _replayed(tmp_path, bundle_of(SHIPPED), "ClassifyEnable", enables, records)
    for enable, answer in zip(enables, answers, strict=True):
        reply = calls.classify_enable(enable)
        verdict = reply.verdict
        rest = {"Entry": verdict.entry, "Error": verdict.error, "ToolsChanged": bool(verdict.tools_changed)}
        assert answer == _outcome(reply) | rest, MessageToJson(enable)
    lines = _records(records)
    for line in lines:
        Draft202012Validator(schema()).validate(json.loads(line))
    again = Replay(calls.policy).differences(lines, may_repeat=False)
    assert (again.decided, again.unfit, again.found) == (2 * DRAWN, 0, Counter())


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program in Go that compares."""
    try:
        return built(tmp_path_factory.mktemp("program"))
    except subprocess.CalledProcessError as error:
        if any(phrase in error.stderr for phrase in OUT_OF_REACH):
            pytest.skip("the Go modules that are needed are neither on this machine nor within its reach")
        raise


def _replayed(
    directory: Path, data: bytes, call: str, requests: Sequence[Message], *records: Path
) -> list[dict[str, Any]]:
    """Return the answers of the Go package by a bundle, in the order of the requests."""
    bundle = directory / "policy.bundle"
    bundle.write_bytes(data)
    done = subprocess.run(
        ["go", "run", "./internal/replay", bundle, call, *records],
        cwd=ROOT / "clients/go",
        input="".join(MessageToJson(each, indent=None) + "\n" for each in requests),
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return list(map(json.loads, done.stdout.splitlines()))


def _outcome(reply: pb.ClassifyLoadResponse | pb.ClassifyEnableResponse) -> dict[str, Any]:
    verdict, words = reply.verdict, reply.words
    return {
        "Status": verdict.status,
        "Rule": verdict.rule,
        "Undetermined": verdict.undetermined,
        "LiftedBy": verdict.lifted_by,
        "Retry": verdict.retry,
        "WordsStatus": words.status,
        "Message": words.message,
    }


def _answer(reply: pb.ExplainToolResponse) -> dict[str, Any]:
    verdict, words = reply.verdict, reply.words
    return {
        "status": verdict.status,
        "rule": verdict.rule,
        "undetermined": verdict.undetermined,
        "lifted_by": verdict.lifted_by,
        "retry": verdict.retry,
        "withhold_text": verdict.withhold_text,
        "unread": list(verdict.unread),
        "words": [words.status, words.rule, words.remediation, words.rejection],
        "facts": _pairs(reply.facts),
        "trials": [[each.rule, each.status, each.truth, _pairs(each.reads), each.why] for each in reply.trials],
        "steps": _steps(reply.path),
        "end": reply.path.end,
        "find_out": list(reply.path.find_out),
    }


def _remaining(reply: pb.CheckToolResponse) -> list[Any] | None:
    path = reply.remaining
    return [_steps(path), path.end, list(path.find_out)] if reply.HasField("remaining") else None


def _steps(path: pb.PathToCallable) -> list[Any]:
    return [[each.rule, each.status, list(map(_change, each.changes))] for each in path.steps]


def _pairs(values: Any) -> list[list[str]]:
    return [[each.fact, each.value] for each in values]


def _change(change: pb.FactChange) -> list[Any]:
    wanted = list(change.wanted_values)
    return [change.fact, change.current, wanted, change.changed_by, change.action, change.phrase]
