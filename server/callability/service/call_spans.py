"""The spans of the calls of a service: one for each, made when the call has ended."""

from __future__ import annotations

import time

from opentelemetry.trace import SpanKind, Status, StatusCode, TracerProvider, get_tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from callability import __version__
from callability.otel import spans
from callability.process import logs
from callability.service.metrics import EndedCall

_FAULTS = frozenset(
    {"UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"},
)
"""The codes that are errors of a server; for others, its caller has to do something."""
_PROPAGATOR = TraceContextTextMapPropagator()


class CallSpans:
    """Reports each call that has ended as a span of the trace that its caller is in, or as a trace of its own.

    Without a provider, the global one of the program makes the spans.
    """

    def __init__(self, tracer_provider: TracerProvider | None = None) -> None:
        self._tracer = get_tracer("callability.service", __version__, tracer_provider)

    def __call__(self, call: EndedCall) -> None:
        """Report a call."""
        ended = time.time_ns()
        request = logs.current()
        span = self._tracer.start_span(
            call.path,
            _PROPAGATOR.extract(_texts(request)),
            SpanKind.SERVER,
            {spans.RPC_SYSTEM: spans.GRPC, spans.RPC_METHOD: call.path, spans.RPC_STATUS: call.code},
            start_time=ended - int(1e9 * call.seconds),
        )
        if span.is_recording():
            if request is not None:
                span.set_attributes({f"{spans.OURS}{name}": value for name, value in request.answer.items()})
            if call.reason:
                span.set_attribute(f"{spans.OURS}reason", call.reason)
            if call.code in _FAULTS:
                span.set_attribute(spans.ERROR_TYPE, call.code)
                span.set_status(Status(StatusCode.ERROR))
        span.end(ended)


def _texts(request: logs.RequestContext | None) -> dict[str, str]:
    """Return what of the metadata of a call is about its trace."""
    if request is None:
        return {}
    fields = _PROPAGATOR.fields
    return {key: str(value) for key, value in request.metadata if key in fields}
