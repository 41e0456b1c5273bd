"""The Go package answers drawn requests as the service does: verdict, unread facts, words, explanation and path."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToJson

from callability.bundle import LocalCalls, read
from callability.v1 import callability_service_pb2 as pb
from support.bundles import POLICIES, DrawnRequests, bundle_of
from support.checkout import ROOT
from support.go_bundles import go_bundles

DRAWN = int(os.environ.get("CALLABILITY_DRAWN", "2000"))
"""Requests for each policy."""


def test_the_bundles_of_the_go_tests_are_those_of_the_policies() -> None:
    """`python -m support.go_bundles` writes them."""
    assert [path.name for path, data in go_bundles() if path.read_bytes() != data] == []


@pytest.mark.skipif(shutil.which("go") is None, reason="the Go toolchain is not on this machine")
@pytest.mark.parametrize("name", POLICIES)
def test_go_explains_drawn_requests_as_python_does(name: str, tmp_path: Path) -> None:
    """Bit for bit, from the same bundle, for requests that reach every part of the rules."""
    bundle = tmp_path / "policy.bundle"
    bundle.write_bytes(bundle_of(name))
    calls = LocalCalls(read(bundle.read_bytes()))
    drawn = DrawnRequests(calls.policy.callability, seed=14)
    requests = [drawn.check_tool() for _ in range(DRAWN)]
    lines = "".join(MessageToJson(each, indent=None) + "\n" for each in requests)
    done = subprocess.run(
        ["go", "run", "./internal/replay", bundle],
        cwd=ROOT / "clients/go",
        input=lines,
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers = list(map(json.loads, done.stdout.splitlines()))
    assert len(answers) == len(requests)
    for request, answer in zip(requests, answers, strict=True):
        explain = pb.ExplainToolRequest.FromString(request.SerializeToString())
        wanted = _answer(calls.explain_tool(explain))
        assert {key: value or None for key, value in answer.items()} == {
            key: value or None for key, value in wanted.items()
        }, MessageToJson(request)


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
        "steps": [[each.rule, each.status, list(map(_change, each.changes))] for each in reply.path.steps],
        "end": reply.path.end,
        "find_out": list(reply.path.find_out),
    }


def _pairs(values: Any) -> list[list[str]]:
    return [[each.fact, each.value] for each in values]


def _change(change: pb.FactChange) -> list[Any]:
    wanted = list(change.wanted_values)
    return [change.fact, change.current, wanted, change.changed_by, change.action, change.phrase]
