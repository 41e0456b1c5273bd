"""What a soak calls wrong: an answer that is not the reference's, a lost call, a fault's latency, and memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from pathlib import Path

import pytest

from callability.compiler.confirmation import Engine
from callability.compiler.policy import load
from callability.v1 import callability_service_pb2 as pb
from soak.faults import Fault
from soak.memory import Growth
from soak.policies import Policies
from soak.reference import Question, questions
from soak.report import found, grown
from soak.work import Outcome, Recorder, Sample, Series, samples
from support.service_stub import ServiceStub


@pytest.fixture(scope="module")
def policies(tmp_path_factory: pytest.TempPathFactory) -> Policies:
    """Policies that a soak puts in effect."""
    return Policies(tmp_path_factory.mktemp("policies"))


@pytest.fixture(scope="module")
def single(policies: Policies) -> list[Question]:
    """Requests about one tool, with the verdicts of two of the policies."""
    return [*questions([each.directory for each in policies.good[:2]], tools=500).single]


def _answered(question: Question, directory: Path) -> pb.CheckToolResponse:
    stub = ServiceStub(load(directory, engine=Engine.REFERENCE))
    return asyncio.run(_awaited(stub.CheckTool(question.request)))


async def _awaited(answer: Awaitable[pb.CheckToolResponse]) -> pb.CheckToolResponse:
    return await answer


def test_an_answer_is_compared_with_the_reference_for_its_revision(policies: Policies, single: list[Question]) -> None:
    """The service agrees; a verdict of another policy, another rule and an unknown revision are wrong."""
    first, second = policies.good[:2]
    differs = next(each for each in single if each.expected[first.revision] != each.expected[second.revision])
    answer = _answered(differs, first.directory)
    assert differs.fault(answer) == ""
    stale = pb.CheckToolResponse(revision=second.revision, verdict=answer.verdict)
    assert differs.fault(stale).startswith("1 wrong verdicts, such as (")
    other = pb.CheckToolResponse(revision="other", verdict=answer.verdict)
    assert differs.fault(other) == "revision other was never to be served"
    assert differs.fault(pb.CheckToolResponse(revision=first.revision)).startswith("1 wrong verdicts")


def test_a_wrong_answer_and_a_lost_call_are_problems(tmp_path: Path) -> None:
    """A call that is lost without retries is only counted."""
    for series in (Series.SINGLE, Series.RAW):
        recorder = Recorder(tmp_path, series)
        for outcome in (Outcome.CORRECT, Outcome.WRONG, Outcome.LOST, Outcome.LOST):
            recorder.add(1.0, outcome, "" if outcome is Outcome.CORRECT else "why", ended=1.5)
        assert recorder.close() == ["wrong after 0.50 s: why", *["lost after 0.50 s: why"] * 2]
    single, raw = (found("a route", each, [*samples(tmp_path, each)], []) for each in (Series.SINGLE, Series.RAW))
    wrong = "a route, CheckTool: 1 answers were wrong"
    assert [*single.problems] == [wrong, "a route, CheckTool: 2 calls were lost after retries"]
    assert [*raw.problems] == ["a route, CheckTool without retries: 1 answers were wrong"]
    nothing = found("a route", Series.SINGLE, [], [])
    assert [*nothing.problems] == ["a route, CheckTool: no call was answered correctly"]


def test_a_call_that_overlaps_a_fault_counts_as_one_in_it() -> None:
    """And so does one within a second after it."""
    times = [(0.0, 0.5), (0.9, 0.2), (1.5, 0.1), (2.5, 0.1), (3.1, 0.1)]
    calls = [Sample(began, seconds, Outcome.CORRECT) for began, seconds in times]
    assert found("a route", Series.SINGLE, calls, [Fault("kill -9", 1.0, 2.0)]).in_faults == calls[1:4]


def test_a_process_that_lived_throughout_may_grow_by_5_mib() -> None:
    """One that was started again is only reported."""
    growths = [
        Growth("small", 600, 60.0, 64.9, throughout=True),
        Growth("large", 600, 60.0, 66.0, throughout=True),
        Growth("restarted", 40, 60.0, 90.0, throughout=False),
    ]
    assert [*grown(growths)] == ["large grew by 6.0 MiB in 600 s, and may by 5"]
