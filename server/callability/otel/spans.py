"""The hooks of a client that report each of its calls as a span.

Names of attributes are those of OpenTelemetry (RPC: semantic conventions v1.45.0; MCP: GenAI semantic conventions
v0.1.0), and our own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

from opentelemetry.trace import SpanKind, Status, StatusCode, TracerProvider, get_current_span, get_tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from callability import __version__
from callability.client.hooks import Fields, Hooks, LoggingHooks, Metadata

RPC_SYSTEM = "rpc.system.name"
GRPC = "grpc"
RPC_METHOD = "rpc.method"
RPC_STATUS = "rpc.response.status_code"
ERROR_TYPE = "error.type"
SERVER_ADDRESS = "server.address"
SERVER_PORT = "server.port"
TOOL = "gen_ai.tool.name"
OPERATION = "gen_ai.operation.name"
EXECUTE_TOOL = "execute_tool"
OURS = "callability."
"""How our own attributes begin: the fields that log lines have too."""


_PROPAGATOR = TraceContextTextMapPropagator()
_ATTEMPTS = "callability_client_attempts_total"


class TracingHooks:
    """Reports each call as a span, and sends its context (`traceparent`) to the service; the rest goes to other hooks.

    Args:
        hooks: what takes events and figures; by default, events go to a logger.
        tracer_provider: who makes the spans; by default, the global one of the program.
    """

    def __init__(self, hooks: Hooks | None = None, tracer_provider: TracerProvider | None = None) -> None:
        self._hooks = hooks or LoggingHooks()
        self._tracer = get_tracer("callability.client", __version__, tracer_provider)

    def log(self, level: int, event: str, fields: Fields) -> None:
        """Pass on an event."""
        self._hooks.log(level, event, fields)

    def metric(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        """Pass on a figure; that of an attempt says how the span of its call ended, and at which replica."""
        if name == _ATTEMPTS:
            span = get_current_span()
            span.set_attribute(RPC_STATUS, labels["code"])
            address, _, port = labels["replica"].rpartition(":")
            if port.isdecimal():
                span.set_attributes({SERVER_ADDRESS: address.strip("[]"), SERVER_PORT: int(port)})
            else:
                span.set_attribute(SERVER_ADDRESS, labels["replica"].removeprefix("unix:"))
        self._hooks.metric(name, value, labels)

    def span(self, name: str, attributes: Fields) -> AbstractContextManager[Metadata]:
        """Return the context of a call, within a span.

        A call of a service is a client span with the path of its method. A decision in this process is an internal one.
        """
        path = attributes.get("path")
        return self._in_process(name) if path is None else self._remote(str(path))

    @contextmanager
    def _remote(self, path: str) -> Iterator[Metadata]:
        about = {RPC_SYSTEM: GRPC, RPC_METHOD: path}
        with self._tracer.start_as_current_span(
            path, kind=SpanKind.CLIENT, attributes=about, record_exception=False, set_status_on_exception=False
        ) as span:
            carrier: dict[str, str] = {}
            _PROPAGATOR.inject(carrier)
            try:
                yield tuple(carrier.items())
            except Exception as error:
                # Its text may be about what was asked.
                span.set_attribute(ERROR_TYPE, str(getattr(error, "code", type(error).__name__)))
                span.set_status(Status(StatusCode.ERROR))
                raise

    @contextmanager
    def _in_process(self, name: str) -> Iterator[Metadata]:
        with self._tracer.start_as_current_span(name, record_exception=False):
            yield ()
