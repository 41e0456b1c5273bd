"""A collector of traces: a gRPC server of OTLP on loopback, and the spans that it was sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse as Response
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (
    TraceServiceServicer,
    add_TraceServiceServicer_to_server,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span

KINDS = Span.SpanKind.Name


@dataclass(frozen=True, slots=True)
class Received:
    """A span as a collector has it, with the name of the program that sent it."""

    program: str
    name: str
    kind: str
    trace: str
    span: str
    parent: str
    attributes: Mapping[str, Any]
    is_error: bool


class Collector(TraceServiceServicer):
    """Keeps what it is sent."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._requests: list[ExportTraceServiceRequest] = []
        self.address = ""

    def Export(self, request: ExportTraceServiceRequest, context: grpc.ServicerContext) -> Response:  # noqa: N802
        """Take spans."""
        with self._lock:
            self._requests.append(request)
        return Response()

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which a program sends its spans here, soon after they have ended."""
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{self.address}", "OTEL_BSP_SCHEDULE_DELAY": "100"}

    @property
    def written(self) -> str:
        """Everything that was sent, as text."""
        with self._lock:
            return "\n".join(map(str, self._requests))

    @property
    def spans(self) -> list[Received]:
        """Every span that was sent."""
        with self._lock:
            return [each for request in self._requests for each in _spans(request)]

    def named(self, name: str, kind: str) -> Received:
        """Return the only span with a name and a kind, such as `SERVER`."""
        [found] = [each for each in self.spans if (each.name, each.kind) == (name, f"SPAN_KIND_{kind}")]
        return found


def _spans(request: ExportTraceServiceRequest) -> Iterator[Received]:
    for resource in request.resource_spans:
        program = _values(resource.resource.attributes)["service.name"]
        for span in (span for scope in resource.scope_spans for span in scope.spans):
            yield Received(
                program,
                span.name,
                KINDS(span.kind),
                span.trace_id.hex(),
                span.span_id.hex(),
                span.parent_span_id.hex(),
                _values(span.attributes),
                span.status.code == 2,
            )


def _values(attributes: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}


@contextmanager
def collector() -> Iterator[Collector]:
    """Run a collector on a free port of loopback."""
    made = Collector()
    server = grpc.server(ThreadPoolExecutor(2))
    add_TraceServiceServicer_to_server(made, server)  # type: ignore[no-untyped-call]
    made.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield made
    finally:
        server.stop(None).wait(120)
