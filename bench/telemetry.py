"""What metrics, logs and traces of `CheckTool` cost the service."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import grpc

from bench import python_client
from bench.check_tool import IN_FLIGHT, PATH, Scale, in_flight, question_by
from bench.report import Aim, Row
from bench.rounds import Rounds
from bench.serving import SERVICE, served
from callability.process.address import DIRECT

PART = "telemetry"

_CALLS = 1_000
_TURNS = 4
_QUESTIONS = 100
_EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
_METRICS = ("--metrics-address", "127.0.0.1:0")
_LINES = ("--log-calls", "--log-level", "info")


@dataclass(frozen=True, slots=True)
class _Subject:
    """A service as it is run, and what it is compared with."""

    arguments: tuple[str, ...] = ()
    module: str = SERVICE
    sampler: str = ""
    against: str = ""
    aim: Aim | None = None


_PLAIN = "text logs"
_SUBJECTS = {
    "no calls counted": _Subject(module="bench.unmeasured"),
    "metrics": _Subject(_METRICS, against="no calls counted", aim=Aim(1.05)),
    _PLAIN: _Subject(),
    "JSON logs": _Subject(("--log-format", "json"), against=_PLAIN, aim=Aim(1.10)),
    "a line of text a call": _Subject(_LINES, against=_PLAIN),
    "a line of JSON a call": _Subject((*_LINES, "--log-format", "json"), against=_PLAIN),
    "traces, none kept": _Subject(("--traces",), sampler="parentbased_always_off", against=_PLAIN),
    "traces, all kept": _Subject(("--traces",), sampler="parentbased_always_on", against=_PLAIN),
}


def rows(rounds: Rounds) -> list[Row]:
    """Measure the CPU of the service a call, with each of them off and on."""
    with ExitStack() as stack:
        collector = stack.enter_context(_collector())
        servers = {
            name: stack.enter_context(
                served(each.module, *each.arguments, variables=_variables(each, collector), quiet=True)
            )
            for name, each in _SUBJECTS.items()
        }
        channel = stack.enter_context(grpc.insecure_channel(servers[_PLAIN].address, [DIRECT]))
        question = question_by(python_client.as_bytes(channel, PATH), _QUESTIONS)
        scale = Scale(rounds.repetitions(_TURNS), rounds.repetitions(_CALLS))
        measured = rounds.interleaved(PART, {PART: lambda: in_flight(servers, question, scale)})[PART]
    cpu = {name: tuple(1e6 * value for value in measured[f"{name} cpu"]) for name in _SUBJECTS}
    return [
        Row(PART, f"{name}, server CPU {IN_FLIGHT}", "µs a call", cpu[name], cpu.get(each.against), each.aim)
        for name, each in _SUBJECTS.items()
    ]


def _variables(subject: _Subject, collector: str) -> Mapping[str, str]:
    if not subject.sampler:
        return {}
    return {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{collector}", "OTEL_TRACES_SAMPLER": subject.sampler}


@contextmanager
def _collector() -> Iterator[str]:
    """Run a collector that takes spans and keeps none, and yield its address."""

    def taken(_request: Any, _context: grpc.ServicerContext) -> bytes:
        return b""

    service, _, method = _EXPORT[1:].partition("/")
    server = grpc.server(ThreadPoolExecutor(1))
    handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {method: grpc.unary_unary_rpc_method_handler(taken)}
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service, handlers)])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()
