"""Traces by OpenTelemetry, from a client to a service and from an agent through a gateway (extra `otel`).

`TracingHooks` are the hooks of a client that report its calls as spans to the tracer of the program that uses it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from callability.otel.spans import TracingHooks

__all__ = ["TracingHooks"]


def __getattr__(name: str) -> Any:
    # `traces` is imported where the extra is not installed, to say so.
    if name == "TracingHooks":
        from callability.otel.spans import TracingHooks  # noqa: PLC0415

        return TracingHooks
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
