"""`CheckColumns` for 10,000 tools beside `CheckTools` about the same: what a server spends, and the handler alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice
from time import process_time

import uvloop

from bench import h2load, python_client
from bench.report import Aim, Row
from bench.rounds import Figures, Rounds
from bench.serving import EMPTY, SERVICE, Served, served
from bench.workload import about_many
from callability.client import FactColumns
from callability.policy.loading import load
from callability.policy.shipped import shipped_policy
from callability.service.calls.callability_calls import CallabilityCalls
from callability.v1.callability_service_pb2 import CheckColumnsRequest
from callability.v1.policy_service_pb2 import GetPolicyResponse

PART = "CheckColumns"

_SERVICE = "/callability.v1.CallabilityService"
_TOOLS = 10_000
_CALLS = 60
"""Calls in a round; of `CheckTools` an eighth of them."""
_CONNECTIONS = 2
_STREAMS = 4
_GENERATOR = h2load if h2load.installed() else python_client


@dataclass(frozen=True, slots=True)
class _Question:
    method: str
    request: bytes
    reply: bytes
    calls: int


def rows(rounds: Rounds) -> list[Row]:
    """Measure the same tools by columns and one by one, and an empty handler with the bytes of the columns."""
    calls = CallabilityCalls(load(shipped_policy(), engine=None))
    message = about_many(_TOOLS)
    columns = FactColumns(GetPolicyResponse.FromString(calls.policy_reply)).request(message).SerializeToString()
    count = rounds.repetitions(_CALLS)
    by_columns = _Question("CheckColumns", columns, asyncio.run(_awaited(calls.check_columns(columns))), count)
    tools = message.SerializeToString()
    by_tools = _Question("CheckTools", tools, asyncio.run(_awaited(calls.check_tools(tools))), max(8, count // 8))
    with served(EMPTY) as empty, served(SERVICE) as service:
        subjects: dict[str, Callable[[], Figures]] = {
            "empty": partial(_served, empty, by_columns),
            "columns": partial(_served, service, by_columns),
            "tools": partial(_served, service, by_tools),
            "handler": partial(_handler, calls.check_columns, by_columns, [columns]),
            "others": partial(_handler, calls.check_columns, by_columns, _turned(columns)),
            "tools handler": partial(_handler, calls.check_tools, by_tools, [tools]),
        }
        measured = rounds.interleaved(PART, subjects)
    spent = {name: measured[name]["ms"] for name in subjects}
    what = f"{_TOOLS:,} tools again and again, server CPU of a call"
    return [
        Row(PART, f"{what}, empty handler, the same bytes", "ms", spent["empty"]),
        Row(PART, what, "ms", spent["columns"], spent["empty"], Aim(1.5)),
        Row(PART, f"{what}, `CheckTools`", "ms", spent["tools"], spent["columns"], Aim(5, at_least=True)),
        Row(PART, f"{_TOOLS:,} tools, the handler alone", "ms", spent["handler"]),
        Row(PART, f"{_TOOLS:,} tools, the handler alone, tools that vary", "ms", spent["others"]),
        Row(
            PART, f"{_TOOLS:,} tools, the handler of `CheckTools` alone", "ms", spent["tools handler"], spent["others"]
        ),
    ]


async def _awaited(reply: Awaitable[bytes]) -> bytes:
    return await reply


def _served(server: Served, question: _Question) -> Figures:
    """Load a server, and return what it spent on a call."""
    before = server.cpu_seconds()
    _GENERATOR.calls_per_second(
        server.address,
        f"{_SERVICE}/{question.method}",
        question.request,
        question.reply,
        calls=question.calls,
        connections=_CONNECTIONS,
        streams=_STREAMS,
    )
    return {"ms": 1e3 * (server.cpu_seconds() - before) / question.calls}


def _turned(request: bytes) -> list[bytes]:
    """Return requests about other tools, more than a service keeps."""
    found = []
    for places in range(1, 33):
        message = CheckColumnsRequest.FromString(request)
        for column in message.columns:
            column.points = column.points[places:] + column.points[:places]
        found.append(message.SerializeToString())
    return found


def _handler(answer: Callable[[bytes], Awaitable[bytes]], question: _Question, requests: Sequence[bytes]) -> Figures:
    """Await the handler without a server."""

    async def calls() -> float:
        started = process_time()
        for request in islice(cycle(requests), question.calls):
            await answer(request)
        return process_time() - started

    return {"ms": 1e3 * uvloop.run(calls()) / question.calls}
