"""`CheckTools` for 50, 1,000 and 10,000 tools: what the server does, the handler alone, and what a client sees."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice, repeat
from statistics import median
from time import perf_counter

import grpc
import uvloop

from bench import h2load, python_client
from bench.report import Aim, Aimed, Row
from bench.rounds import Figures, Rounds, Series
from bench.serving import EMPTY, SERVICE, Served, served
from bench.workload import about_many
from callability.compiler.bundle_writing import checked_policy
from callability.compiler.policy import load
from callability.files.shipped_policy import shipped_policy
from callability.process.address import DIRECT
from callability.service.calls import CallabilityCalls
from callability.v1.callability_service_pb2 import CheckToolsRequest, CheckToolsResponse

PART = "CheckTools"

_PATH = "/callability.v1.CallabilityService/CheckTools"
_CONNECTIONS = 2
_STREAMS = 4
_CALLS = {50: 2_000, 1_000: 300, 10_000: 32}
"""Calls in a round for each number of tools."""
_VARIANTS = 60_000
"""Tools that are asked about by turns where they vary: more than anything that remembers answers should hold."""
_AIM = {1_000: Aim(700_000, of=Aimed.VALUE, at_least=True)}
_GENERATOR = h2load if h2load.installed() else python_client


@dataclass(frozen=True, slots=True)
class _Question:
    tools: int
    message: CheckToolsRequest
    request: bytes
    reply: bytes
    others: Iterator[bytes]
    calls: int
    """Calls in a round."""


def rows(rounds: Rounds) -> list[Row]:
    """Measure each size, over the network and in the handler alone."""
    calls = CallabilityCalls(checked_policy(load(shipped_policy())))
    with (
        served(EMPTY) as empty,
        served(SERVICE) as service,
        grpc.insecure_channel(service.address, [DIRECT]) as channel,
    ):
        subjects: dict[str, Callable[[], Figures]] = {}
        for tools in _CALLS:
            question = _question(tools, calls, rounds)
            subjects[f"{tools} empty"] = partial(_served, empty, question)
            subjects[f"{tools} service"] = partial(_served, service, question)
            subjects[f"{tools} handler"] = partial(_handler, calls, repeat(question.request), question)
            subjects[f"{tools} others"] = partial(_handler, calls, question.others, question)
            subjects[f"{tools} client"] = partial(_client, channel, question)
        measured = rounds.interleaved(PART, subjects)
    return [row for tools in _CALLS for row in _rows(tools, measured)]


def _question(tools: int, calls: CallabilityCalls, rounds: Rounds) -> _Question:
    message = about_many(tools)
    request = message.SerializeToString()
    reply = asyncio.run(_awaited(calls.check_tools(request)))
    variants = rounds.repetitions(_VARIANTS // tools)
    others = [about_many(tools, variant=variant).SerializeToString() for variant in range(1, 1 + variants)]
    return _Question(tools, message, request, reply, cycle(others), rounds.repetitions(_CALLS[tools]))


async def _awaited(reply: Awaitable[bytes]) -> bytes:
    return await reply


def _served(server: Served, question: _Question) -> Figures:
    """Load a server and return its throughput and what it spent."""
    before = server.cpu_seconds()
    rate = _GENERATOR.calls_per_second(
        server.address,
        _PATH,
        question.request,
        question.reply,
        calls=question.calls,
        connections=_CONNECTIONS,
        streams=_STREAMS,
    )
    spent = server.cpu_seconds() - before
    return {"rate": rate * question.tools, "cpu": question.calls * question.tools / spent}


def _handler(calls: CallabilityCalls, requests: Iterator[bytes], question: _Question) -> Figures:
    """Await the handler without a server."""
    batch = list(islice(requests, max(4, question.calls // 4)))

    async def answer() -> float:
        started = perf_counter()
        for request in batch:
            await calls.check_tools(request)
        return perf_counter() - started

    return {"rate": len(batch) * question.tools / uvloop.run(answer())}


def _client(channel: grpc.Channel, question: _Question) -> Figures:
    """Ask by a Python client as a proxy would, messages encoded and decoded, one call at a time."""
    call = channel.unary_unary(
        _PATH,
        request_serializer=CheckToolsRequest.SerializeToString,
        response_deserializer=CheckToolsResponse.FromString,
    )
    taken = []
    for _ in range(max(5, question.calls // 20)):
        started = perf_counter()
        call(question.message, timeout=30)
        taken.append(perf_counter() - started)
    return {"ms": 1e3 * median(taken)}


def _rows(tools: int, measured: Mapping[str, Series]) -> Iterator[Row]:
    empty, service = measured[f"{tools} empty"], measured[f"{tools} service"]
    of_rate, of_cpu = (_AIM.get(tools), None) if _GENERATOR is h2load else (None, _AIM.get(tools))
    many = f"{tools:,} tools"
    load_ = f"throughput by {_GENERATOR.NAME}"
    yield Row(PART, f"{many}, empty handler, {load_}", "decisions/s", empty["rate"])
    yield Row(PART, f"{many}, {load_}", "decisions/s", service["rate"], against=empty["rate"], aim=of_rate)
    yield Row(PART, f"{many}, a second of server CPU", "decisions", service["cpu"], against=empty["cpu"], aim=of_cpu)
    yield Row(PART, f"{many}, the handler alone", "decisions/s", measured[f"{tools} handler"]["rate"])
    yield Row(PART, f"{many}, the handler alone, tools that vary", "decisions/s", measured[f"{tools} others"]["rate"])
    yield Row(PART, f"{many}, round trip of {python_client.NAME}", "ms", measured[f"{tools} client"]["ms"])
