"""Traces by OpenTelemetry, from a client to a service and from an agent through a gateway (extra `otel`).

`TracingHooks` are the hooks of a client that report its calls as spans to the tracer of the program that uses it.
"""

from callability.otel.client_hooks import TracingHooks

__all__ = ["TracingHooks"]
