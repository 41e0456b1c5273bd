"""Spans before they are sent: their names, their attributes, and what they leave out."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from callability.client.hooks import PolicyUnavailable
from callability.otel import TracingHooks
from callability.otel.tracing import Conventions, WithoutTexts
from callability.process.logs import note, request_id
from callability.service.call_spans import CallSpans
from callability.service.metrics import EndedCall

CHECK = "callability.v1.CallabilityService/CheckTool"
_REMOTE = {"method": "CheckTool", "path": CHECK}


class Recorded:
    """A provider whose spans are kept."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(Conventions())
        self.provider.add_span_processor(SimpleSpanProcessor(WithoutTexts(self._exporter)))

    @property
    def only(self) -> ReadableSpan:
        """The only span that has ended."""
        [span] = self._exporter.get_finished_spans()
        return span


@pytest.fixture
def recorded() -> Recorded:
    """Nothing is recorded yet."""
    return Recorded()


def _attempt(hooks: TracingHooks, replica: str, code: str) -> None:
    labels = {"method": "CheckTool", "replica": replica, "code": code}
    hooks.metric("callability_client_attempts_total", 1, labels)


def test_a_call_of_a_client_names_its_method_its_replica_and_its_code(recorded: Recorded) -> None:
    """Those of the last attempt; the context goes with the call."""
    hooks = TracingHooks(tracer_provider=recorded.provider)
    with hooks.span("callability.CheckTool", _REMOTE) as metadata:
        _attempt(hooks, "127.0.0.1:1", "UNAVAILABLE")
        _attempt(hooks, "[::1]:7420", "OK")
    span = recorded.only
    assert (span.name, span.kind, span.status.status_code) == (CHECK, SpanKind.CLIENT, StatusCode.UNSET)
    assert dict(span.attributes or {}) == {
        "rpc.system.name": "grpc",
        "rpc.method": CHECK,
        "rpc.response.status_code": "OK",
        "server.address": "::1",
        "server.port": 7420,
    }
    context = span.get_span_context()
    assert context is not None
    assert dict(metadata) == {
        "traceparent": f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
    }


def test_a_call_without_an_answer_is_an_error_without_its_text(recorded: Recorded) -> None:
    """The text may be about what was sent."""
    hooks = TracingHooks(tracer_provider=recorded.provider)

    def calling() -> None:
        with hooks.span("callability.CheckTool", _REMOTE):
            _attempt(hooks, "unix:/run/policy.sock", "UNAVAILABLE")
            raise PolicyUnavailable("a secret text", "UNAVAILABLE")

    with pytest.raises(PolicyUnavailable):
        calling()
    span = recorded.only
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, None)
    assert (span.attributes or {})["error.type"] == "UNAVAILABLE"
    assert (span.attributes or {})["server.address"] == "/run/policy.sock"
    assert "secret" not in span.to_json()


def test_a_decision_in_this_process_is_an_internal_span_that_sends_nothing(recorded: Recorded) -> None:
    """There is no call."""
    with TracingHooks(tracer_provider=recorded.provider).span("callability.CheckTool", {"method": "CheckTool"}) as sent:
        pass
    assert (tuple(sent), recorded.only.kind) == ((), SpanKind.INTERNAL)


def test_a_span_has_the_fields_of_its_request(recorded: Recorded) -> None:
    """The same that log lines have."""
    with request_id("r-1"):
        note(server="git")
        recorded.provider.get_tracer("test").start_span("x").end()
    assert dict(recorded.only.attributes or {}) == {"callability.request_id": "r-1", "callability.server": "git"}


def test_the_texts_of_errors_are_not_sent(recorded: Recorded) -> None:
    """A server may repeat a secret in one; its code is kept."""
    tracer = recorded.provider.get_tracer("test")
    with pytest.raises(ValueError, match="secret"), tracer.start_as_current_span("MCP send tools/call reset"):
        raise ValueError("a secret text")
    span = recorded.only
    assert (span.name, span.status.status_code) == ("tools/call reset", StatusCode.ERROR)
    assert (span.attributes or {})["gen_ai.tool.name"] == "reset"
    assert "secret" not in span.to_json()


@pytest.mark.parametrize(("code", "error"), [("OK", False), ("RESOURCE_EXHAUSTED", False), ("INTERNAL", True)])
def test_a_call_is_an_error_if_the_service_is_to_blame(code: str, error: bool, recorded: Recorded) -> None:
    """It began as long ago as it took."""
    CallSpans(recorded.provider)(EndedCall(CHECK, code, 0.25, "" if code == "OK" else "WHY"))
    span = recorded.only
    assert span.kind is SpanKind.SERVER
    assert (span.status.status_code is StatusCode.ERROR) is error
    assert span.start_time is not None
    assert span.end_time is not None
    assert span.end_time - span.start_time == 250_000_000
