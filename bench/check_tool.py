"""`CheckTool` against an empty handler behind the same server and edge, for messages of the same sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import mean, median

import grpc

from bench import h2load, python_client
from bench.report import Aim, Row
from bench.rounds import Figures, Rounds, Series
from bench.serving import EMPTY, SERVICE, Served, served
from bench.workload import about_one_each
from callability.process.address import DIRECT

PART = "CheckTool"

PATH = "/callability.v1.CallabilityService/CheckTool"
_CONNECTIONS = 2
_STREAMS = 8
_CALLS = 1_000
_ONE_AT_A_TIME = 500
_TURNS = 4
"""How often the two take turns within a round: what disturbs this machine often lasts longer than one turn."""
GENERATOR = h2load if h2load.installed() else python_client
"""What calls in flight are sent by."""
IN_FLIGHT = f"at {_CONNECTIONS * _STREAMS} in flight by {GENERATOR.NAME}"
"""The load of `in_flight`, for the rows of a report."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked by Python, one after the other, and what is asked by h2load, which knows one request."""

    requests: Sequence[bytes]
    request: bytes
    reply: bytes


@dataclass(frozen=True, slots=True)
class Scale:
    """How often the servers take turns in a round, and how many calls a turn has."""

    turns: int
    calls: int


def rows(rounds: Rounds) -> list[Row]:
    """Measure one call at a time, and 16 in flight."""
    with (
        served(EMPTY) as empty,
        served(SERVICE) as service,
        grpc.insecure_channel(empty.address, [DIRECT]) as empty_channel,
        grpc.insecure_channel(service.address, [DIRECT]) as service_channel,
    ):
        servers = {EMPTY: empty, SERVICE: service}
        calls = {
            EMPTY: python_client.as_bytes(empty_channel, PATH),
            SERVICE: python_client.as_bytes(service_channel, PATH),
        }
        question = question_by(calls[SERVICE], rounds.repetitions(_ONE_AT_A_TIME))
        scale = Scale(rounds.repetitions(_TURNS), rounds.repetitions(_CALLS))
        # The first request that the empty handler gets is the one that it answers for ever.
        calls[EMPTY](question.request)
        subjects: dict[str, Callable[[], Figures]] = {
            "python": lambda: python_client.round_trips(calls, question.requests)
        }
        if h2load.installed():
            subjects["h2load"] = lambda: _by_h2load(servers, question, scale)
        subjects["in flight"] = lambda: in_flight(servers, question, scale)
        measured = rounds.interleaved(PART, subjects)
    return list(_rows(measured))


def question_by(call: grpc.UnaryUnaryMultiCallable[bytes, bytes], count: int) -> Question:
    """Return the requests; the one for h2load is one whose reply is nearest to the mean size."""
    requests = [request.SerializeToString() for request in islice(about_one_each(_ONE_AT_A_TIME), count)]
    replies = [call(request) for request in requests]
    usual = mean(map(len, replies))
    request, reply = min(zip(requests, replies, strict=True), key=lambda pair: abs(len(pair[1]) - usual))
    return Question(requests, request, reply)


def _by_h2load(servers: Mapping[str, Served], question: Question, scale: Scale) -> Figures:
    taken: dict[str, list[float]] = {name: [] for name in servers}
    for _ in range(scale.turns):
        for name, server in servers.items():
            call = (server.address, PATH, question.request, question.reply)
            taken[name] += h2load.round_trips(*call, calls=max(1, len(question.requests) // scale.turns))
    return {name: median(found) for name, found in taken.items()}


def in_flight(servers: Mapping[str, Served], question: Question, scale: Scale) -> Figures:
    """Return the rate of calls and the CPU time of a call for each server; they take turns."""
    seconds, cpu = dict.fromkeys(servers, 0.0), dict.fromkeys(servers, 0.0)
    for _ in range(scale.turns):
        for name, server in servers.items():
            call = (server.address, PATH, question.request, question.reply)
            before = server.cpu_seconds()
            rate = GENERATOR.calls_per_second(*call, calls=scale.calls, connections=_CONNECTIONS, streams=_STREAMS)
            cpu[name] += server.cpu_seconds() - before
            seconds[name] += scale.calls / rate
    calls = scale.turns * scale.calls
    return {f"{name} rate": calls / seconds[name] for name in servers} | {
        f"{name} cpu": cpu[name] / calls for name in servers
    }


def _rows(measured: Mapping[str, Series]) -> Iterator[Row]:
    for subject, by in (("python", python_client.NAME), ("h2load", h2load.NAME)):
        if subject in measured:
            empty, service = (_micro(measured[subject][name]) for name in (EMPTY, SERVICE))
            yield Row(PART, f"empty handler, p50 at 1 in flight by {by}", "µs", empty)
            yield Row(PART, f"CheckTool, p50 at 1 in flight by {by}", "µs", service, against=empty, aim=Aim(1.10))
    many = measured["in flight"]
    empty, service = many[f"{EMPTY} rate"], many[f"{SERVICE} rate"]
    yield Row(PART, f"empty handler, throughput {IN_FLIGHT}", "calls/s", empty)
    yield Row(PART, f"CheckTool, throughput {IN_FLIGHT}", "calls/s", service, against=empty)
    empty, service = _micro(many[f"{EMPTY} cpu"]), _micro(many[f"{SERVICE} cpu"])
    yield Row(PART, f"empty handler, server CPU {IN_FLIGHT}", "µs a call", empty)
    yield Row(PART, f"CheckTool, server CPU {IN_FLIGHT}", "µs a call", service, against=empty)


def _micro(values: Iterable[float]) -> tuple[float, ...]:
    return tuple(1e6 * value for value in values)
