"""The traces of a program: who takes the spans, by the environment variables of OpenTelemetry, and what they hold."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from threading import Thread

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.sdk.trace import TracerProvider as SdkTracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Status
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from callability import __version__
from callability.otel import spans
from callability.process import logs

STOP_SECONDS = 3.0
"""How long the end of a program waits for the last spans to be taken."""
_SENT = "MCP send "
"""How the MCP SDK begins the name of a span of a client; the convention has no such word."""
_PROTOCOL_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")


class Tracing:
    """The traces of this program, which the global tracer takes part in.

    Raises:
        ValueError: a variable has a value that is not supported.
    """

    def __init__(self, program: str) -> None:
        exporter = exporter_class()
        named = SERVICE_NAME in OTELResourceDetector().detect().attributes
        about = {"service.version": __version__} | ({} if named else {SERVICE_NAME: program})
        self.provider = SdkTracerProvider(resource=Resource.create(about), shutdown_on_exit=False)
        self.provider.add_span_processor(Conventions())
        if exporter is not None:
            self.provider.add_span_processor(BatchSpanProcessor(WithoutTexts(exporter())))
        trace.set_tracer_provider(self.provider)
        # Baggage is not passed on: it is for its author, and would reach every server behind a gateway.
        propagate.set_global_textmap(TraceContextTextMapPropagator())

    def stop(self) -> None:
        """Send the last spans; give up after `STOP_SECONDS`, since the collector may be gone."""
        stopping = Thread(target=self.provider.shutdown, daemon=True, name="callability-traces")
        stopping.start()
        stopping.join(STOP_SECONDS)


class Conventions(SpanProcessor):
    """Gives each span the fields of its request, and spans of the MCP SDK the names of the conventions."""

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Complete a span that starts."""
        request = logs.current()
        if request is not None:
            span.set_attribute(f"{spans.OURS}request_id", request.request_id)
            span.set_attributes({f"{spans.OURS}{key}": value for key, value in request.fields.items()})
        if span.name.startswith(_SENT):
            name = span.name.removeprefix(_SENT)
            span.update_name(name)
            method, _, tool = name.partition(" ")
            if method == "tools/call" and tool:
                span.set_attributes({spans.OPERATION: spans.EXECUTE_TOOL, spans.TOOL: tool})


class WithoutTexts(SpanExporter):
    """Hands spans to another exporter without the texts of errors: a server may repeat a secret in one."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Export spans."""
        return self._exporter.export([_without_texts(span) for span in spans])

    def shutdown(self) -> None:
        """Let go of the other exporter."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Export what the other exporter holds."""
        return self._exporter.force_flush(timeout_millis)


def _without_texts(span: ReadableSpan) -> ReadableSpan:
    if not span.events and span.status.description is None:
        return span
    return ReadableSpan(
        name=span.name,
        context=span.context,
        parent=span.parent,
        resource=span.resource,
        attributes=span.attributes,
        links=span.links,
        kind=span.kind,
        status=Status(span.status.status_code),
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )


def exporter_class() -> Callable[[], SpanExporter] | None:
    """Return what makes the exporter that the environment asks for; None if it wants none.

    Raises:
        ValueError: a variable has a value that is not supported.
    """
    wanted = os.environ.get("OTEL_TRACES_EXPORTER") or "otlp"
    if wanted == "none":
        return None
    if wanted != "otlp":
        raise ValueError(f"`$OTEL_TRACES_EXPORTER` must be `otlp` or `none`, and is `{wanted}`")
    name = next((each for each in _PROTOCOL_VARIABLES if os.environ.get(each)), None)
    protocol = os.environ[name] if name else "grpc"
    if protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as ByGrpc  # noqa: PLC0415

        return ByGrpc
    if protocol == "http/protobuf":
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as ByHttp  # noqa: PLC0415

        return ByHttp
    raise ValueError(f"`${name}` must be `grpc` or `http/protobuf`, and is `{protocol}`")
