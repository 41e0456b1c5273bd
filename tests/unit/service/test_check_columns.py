"""`CheckColumns` answers as `CheckTools` does: bit for bit, for whole columns."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from math import prod
from pathlib import Path

import grpc
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from callability.bundle import read
from callability.client import FactColumns, verdicts_of
from callability.packed_numbers import packed, unpacked, width_of
from callability.policy.loading import load
from callability.service.calls.callability_calls import CallabilityCalls
from callability.service.fast_path import column_calls
from callability.service.fast_path.answer_table import combinations, table_of
from callability.service.observability.metrics import PolicyMetrics
from callability.service.requests.errors import InvalidRequest, RevisionChanged, ServiceError
from callability.v1 import callability_service_pb2 as pb
from callability.v1 import facts_pb2
from callability.v1.policy_service_pb2 import Axis, GetPolicyResponse
from callability.v1.verdict_pb2 import ToolWords
from support.bundles import POLICIES, DrawnRequests, bundle_of, policy_of
from support.drawing import share
from support.policies import exported_policy

SERVERS, TOOLS = 12, 25


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    """One event loop for every call."""
    with asyncio.Runner() as one:
        yield one


def _columns(calls: CallabilityCalls) -> FactColumns:
    return FactColumns(GetPolicyResponse.FromString(calls.policy_reply))


def _drawn(drawn: DrawnRequests) -> pb.CheckToolsRequest:
    """Return a request about drawn tools, whose names reach every class that rules distinguish."""
    request = pb.CheckToolsRequest()
    for _ in range(SERVERS):
        one = drawn.check_tool()
        tools = [drawn.check_tool() for _ in range(TOOLS)]
        named = [pb.Tool(name=each.tool or "t", facts=each.tool_facts) for each in tools]
        request.servers.append(pb.ServerTools(name=one.server or "s", facts=one.server_facts, tools=named))
        if one.HasField("agent"):
            request.agent.CopyFrom(one.agent)
    return request


def _compared(
    runner: asyncio.Runner, calls: CallabilityCalls, columns: FactColumns, request: pb.CheckToolsRequest
) -> pb.CheckColumnsRequest:
    """Compare the answers to a request by tools and by columns, and return the latter request."""

    async def both() -> tuple[bytes, bytes]:
        return await calls.check_tools(request.SerializeToString()), await calls.check_columns(
            query.SerializeToString()
        )

    query = columns.request(request)
    many, by_columns = runner.run(both())
    wanted = pb.CheckToolsResponse.FromString(many)
    found = pb.CheckColumnsResponse.FromString(by_columns)
    columns.learn(query, found)
    verdicts = [result.verdict for server in wanted.servers for result in server.results]
    assert verdicts_of(found) == verdicts
    assert (found.revision, list(found.words)) == (wanted.revision, list(wanted.words))
    distinct = [each.SerializeToString() for each in found.distinct_verdicts]
    assert len(set(distinct)) == len(distinct)
    return query


@pytest.mark.parametrize("name", POLICIES)
def test_columns_are_answered_as_tools_are(name: str, runner: asyncio.Runner) -> None:
    """Verdict, rule, unread facts, withheld text and words, for names and then for their points."""
    calls, drawn = CallabilityCalls(policy_of(name)), DrawnRequests(read(bundle_of(name)).callability, seed=5)
    columns = _columns(calls)
    for _ in range(share(6)):
        request = _drawn(drawn)
        _compared(runner, calls, columns, request)
        again = _compared(runner, calls, columns, request)
        assert not any(column.HasField("names") for column in again.columns)


@pytest.mark.parametrize("name", POLICIES)
def test_columns_are_answered_alike_without_a_table(
    name: str, runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Policies with many combinations are decided by those that occur."""
    monkeypatch.setattr(column_calls, "MAX_COMBINATIONS", 0)
    calls, drawn = CallabilityCalls(policy_of(name)), DrawnRequests(read(bundle_of(name)).callability, seed=6)
    columns = _columns(calls)
    for _ in range(share(4)):
        _compared(runner, calls, columns, _drawn(drawn))


def test_an_axis_without_a_column_has_absent_facts(runner: asyncio.Runner) -> None:
    """So the tools are undetermined, as those of a request without facts."""
    calls = CallabilityCalls(policy_of("shipped"))
    reply = runner.run(_awaited(calls, pb.CheckColumnsRequest(tools=3)))
    absent = pb.CheckToolResponse.FromString(
        runner.run(_one(calls, pb.CheckToolRequest(server="s", tool="t"))),
    )
    assert verdicts_of(reply) == [absent.verdict] * 3
    assert ToolWords.FromString(reply.words[0].SerializeToString()) == absent.words
    assert runner.run(_awaited(calls, pb.CheckColumnsRequest())).verdicts == b""


async def _one(calls: CallabilityCalls, request: pb.CheckToolRequest) -> bytes:
    return await calls.check_tool(request.SerializeToString())


async def _awaited(calls: CallabilityCalls, request: pb.CheckColumnsRequest) -> pb.CheckColumnsResponse:
    return pb.CheckColumnsResponse.FromString(await calls.check_columns(request.SerializeToString()))


def _request(*columns: pb.AxisColumn, tools: int = 2, revision: str | None = None) -> pb.CheckColumnsRequest:
    named = policy_of("shipped").revision if revision is None else revision
    return pb.CheckColumnsRequest(tools=tools, revision=named, columns=columns)


def _points(fact: str, points: bytes) -> pb.AxisColumn:
    return pb.AxisColumn(fact=fact, points=points)


def _names(fact: str, names: Sequence[str], places: bytes) -> pb.AxisColumn:
    return pb.AxisColumn(fact=fact, names=pb.NameColumn(names=names, places=places))


_WRONG = {
    "too short": (_request(_points("server.enabled", b"\0")), "COLUMN_LENGTH", "has 1 bytes, and 2 are wanted"),
    "too long": (_request(_points("approval.disabled", bytes(3))), "COLUMN_LENGTH", "1 for each of 2 tools"),
    "no such point": (_request(_points("server.enabled", b"\2\3")), "COLUMN_POINT", "has 3 for tool 1"),
    "no axis": (_request(_points("approval.status", bytes(2))), "COLUMN_UNKNOWN", "`approval.status` is of no axis"),
    "an agent": (_request(_points("agent.name", bytes(2))), "COLUMN_UNKNOWN", "`agent.name` is of no axis"),
    "twice": (_request(*[_points("server.enabled", bytes(2))] * 2), "COLUMN_REPEATED", "two columns `server.enabled`"),
    "no revision": (_request(_points("server.enabled", bytes(2)), revision=""), "REVISION_EMPTY", "names no revision"),
    "names of no name": (_request(_names("server.enabled", ["a"], bytes(2))), "COLUMN_UNKNOWN", "has names, and only"),
    "no such name": (_request(_names("tool.name", ["a"], b"\0\1")), "COLUMN_POINT", "has 1 for tool 1"),
    "few places": (_request(_names("tool.name", ["a"], b"\0")), "COLUMN_LENGTH", "has 1 bytes, and 2 are wanted"),
    "an empty name": (_request(_names("tool.name", ["a", ""], b"\0\1")), "NAME_EMPTY", "the name of the tool"),
    "a long name": (_request(_names("server.name", ["ü" * 257], bytes(2))), "NAME_TOO_LONG", "name of the server"),
    "many tools": (_request(tools=20_001), "TOO_MANY_TOOLS", "20,001 tools, and may have 20,000"),
    "many names": (
        _request(_names("tool.name", ["n"] * 20_100, bytes(40_200))), "TOO_MANY_NAMES", "may have 20,000 names"
    ),
    "many columns": (_request(*[_points("server.enabled", b"")] * 600), "TOO_MANY_COLUMNS", "may have 512"),
}  # fmt: skip


@pytest.mark.parametrize("name", _WRONG)
def test_what_is_wrong_in_a_column_is_an_error_of_the_request(name: str, runner: asyncio.Runner) -> None:
    """With what was found and what is wanted."""
    request, reason, sentence = _WRONG[name]
    with pytest.raises(InvalidRequest) as refused:
        runner.run(_awaited(CallabilityCalls(policy_of("shipped")), request))
    assert refused.value.reason == reason
    assert sentence in refused.value.message


@pytest.mark.parametrize("data", [b"\x1a", b"\x22\x02\x0a", b"\x22\x04\x1a\x02\x0a\x05"])
def test_what_is_no_request_by_columns_is_malformed(data: bytes, runner: asyncio.Runner) -> None:
    """At any depth."""

    async def call() -> bytes:
        return await CallabilityCalls(policy_of("shipped")).check_columns(data)

    with pytest.raises(ServiceError) as refused:
        runner.run(call())
    assert refused.value.reason in {"REQUEST_MALFORMED", "COLUMN_UNKNOWN"}


def test_points_of_another_revision_are_refused_with_the_current_one(runner: asyncio.Runner) -> None:
    """The code is FAILED_PRECONDITION, before any point is looked at."""
    calls = CallabilityCalls(policy_of("shipped"))
    with pytest.raises(RevisionChanged) as refused:
        runner.run(_awaited(calls, _request(_points("server.enabled", b""), revision="0" * 64)))
    assert (refused.value.code, refused.value.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "REVISION_CHANGED")
    assert policy_of("shipped").revision in refused.value.message


def test_names_that_rules_read_must_be_there(runner: asyncio.Runner) -> None:
    """A policy that reads no name ignores them, and answers names that have points with these points."""
    calls = CallabilityCalls(policy_of("environments"))
    named = [axis.facts[0] for axis in _axes(calls) if not axis.points]
    tools = [*(_names(fact, ["delete_x", "y"], b"\0\1") for fact in ("server.name", "tool.name"))]
    revision = policy_of("environments").revision
    reply = runner.run(_awaited(calls, pb.CheckColumnsRequest(tools=2, revision=revision, columns=tools)))
    read_by_rules = [fact for fact in ("server.name", "tool.name") if fact in named]
    assert sorted(each.fact for each in reply.name_points) == sorted(read_by_rules)
    if read_by_rules:
        with pytest.raises(InvalidRequest, match="which rules read"):
            runner.run(_awaited(calls, pb.CheckColumnsRequest(tools=2)))


def _axes(calls: CallabilityCalls) -> Sequence[Axis]:
    rules = GetPolicyResponse.FromString(calls.policy_reply).rule_sets
    return next(each.axes for each in rules if each.name == "callability")


def test_columns_are_counted_as_tools_are(runner: asyncio.Runner) -> None:
    """Verdicts, facts that are unread, and the tools of the batch."""
    drawn = DrawnRequests(read(bundle_of("shipped")).callability, seed=7)
    request = _drawn(drawn)
    texts = []
    for by_columns in (False, True):
        registry = CollectorRegistry()
        metrics = PolicyMetrics(registry)
        calls = CallabilityCalls(policy_of("shipped"), metrics)
        metrics.decides(policy_of("shipped"))
        query = _columns(calls).request(request) if by_columns else request
        answer = calls.check_columns if by_columns else calls.check_tools

        async def call(answer=answer, query=query) -> bytes:  # type: ignore[no-untyped-def]
            return await answer(query.SerializeToString())  # type: ignore[no-any-return]

        runner.run(call())
        lines = generate_latest(registry).decode().splitlines()
        kept = ("callability_verdicts_total", "callability_undetermined", "callability_batch_tools")
        counted = [line for line in lines if line.startswith(kept) and "_created" not in line]
        texts.append([line.replace("not_understood", "left_out") for line in counted])
    assert _summed(texts[0]) == _summed(texts[1])


def _summed(lines: Sequence[str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for line in lines:
        name, _, value = line.rpartition(" ")
        found[name] = found.get(name, 0) + float(value)
    return found


def test_a_request_that_is_kept_is_answered_and_counted_again(runner: asyncio.Runner) -> None:
    """With the same bytes, as often as it comes."""
    registry = CollectorRegistry()
    calls = CallabilityCalls(policy_of("shipped"), PolicyMetrics(registry))
    request = _request(_points("server.enabled", b"\0\2"))
    replies = {runner.run(_awaited(calls, request)).SerializeToString() for _ in range(3)}
    assert len(replies) == 1
    lines = generate_latest(registry).decode().splitlines()
    counted = [float(line.rpartition(" ")[2]) for line in lines if line.startswith("callability_verdicts_total{")]
    assert sum(counted) == 6
    assert "callability_batch_tools_sum 6.0" in lines


@pytest.mark.parametrize("sizes", [(2,), (3, 2, 5), (256,), (16, 16), (2, 128, 2), (4, 3, 3, 3, 3)])
def test_a_table_of_answers_gives_the_answer_to_each_combination(sizes: Sequence[int]) -> None:
    """However many steps it needs."""
    every = list(combinations(sizes))
    answers = [hash(points) * 7 % 3 for points in every]
    table = table_of(sizes, answers)
    assert table is not None
    columns = [bytes(points[axis] for points in every) for axis in range(len(sizes))]
    assert list(table.answers(columns, len(every))) == answers


def test_answers_that_a_byte_cannot_number_have_no_table() -> None:
    """Nor has a state whose points are too many."""
    assert table_of((257,), [0] * 257) is None
    assert table_of((20, 20), list(range(400))) is None
    sizes = (200, 200)
    assert table_of(sizes, [number % 255 for number in range(prod(sizes))]) is None


@pytest.mark.parametrize("count", [1, 256, 257, 65_536, 65_537])
def test_numbers_are_packed_in_as_few_bytes_as_the_largest_needs(count: int) -> None:
    """The lowest first, on every machine."""
    numbers = [0, count - 1, count // 2]
    column = packed(numbers, count)
    assert list(unpacked(column, count)) == numbers
    assert column[width_of(count) : 2 * width_of(count)] == (count - 1).to_bytes(width_of(count), "little")


def test_an_axis_with_many_points_has_two_bytes_for_each(tmp_path: Path, runner: asyncio.Runner) -> None:
    """Names that 300 rules distinguish, and the verdicts about them."""
    names = [f"n{number}" for number in range(300)]
    rule = '  - {{id: {0}, when: {{tool.name: {0}}}, status: disabled_by_config, action: "{{edit_policy}}."}}\n'
    rules = "".join(map(rule.format, names))
    directory = exported_policy(tmp_path / "p", ("callability.yaml", "  - {id: open,", f"{rules}  - {{id: open,"))
    calls = CallabilityCalls(load(directory, engine=None))
    columns = _columns(calls)
    tools = [pb.Tool(name=name, facts=facts_pb2.ToolFacts(approval=facts_pb2.Approval())) for name in (*names, "other")]
    request = pb.CheckToolsRequest(servers=[pb.ServerTools(name="s", tools=tools)])
    first, again = (_compared(runner, calls, columns, request) for _ in range(2))
    assert {column.fact for column in first.columns if column.HasField("names")} == {"tool.name"}
    assert {len(column.points) for column in again.columns if column.fact == "tool.name"} == {2 * len(tools)}
