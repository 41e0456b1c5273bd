"""The traces of this process, if they are asked for: nothing of OpenTelemetry is imported otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from callability.client import Hooks

_NEEDS = "traces need the extra `otel` (`opentelemetry.sdk` cannot be imported): run pip install 'callability[otel]'"


class NoTraces(Exception):
    """Traces were asked for and there can be none; the text says why."""


_running: list[Any] = []


def check_traces() -> None:
    """Check that there can be traces.

    Raises:
        NoTraces: the extra is not installed, or a variable has a value that is not supported.
    """
    try:
        _import_tracing().exporter_class()
    except ValueError as error:
        raise NoTraces(str(error)) from error


def start_traces(program: str) -> Callable[[], None]:
    """Send traces from now on, as `OTEL_*` say; return what sends the last ones.

    Args:
        program: the name of the service in the traces, unless a variable gives one.

    Raises:
        NoTraces: as for `check_traces`.
    """
    check_traces()
    tracing = _import_tracing().Tracing(program)
    _running.append(tracing)
    stop: Callable[[], None] = tracing.stop
    return stop


def are_sent() -> bool:
    """Say whether this process sends traces."""
    return bool(_running)


def client_hooks() -> Hooks | None:
    """Return the hooks of a client in this process, which report its calls as spans; None if there are no traces."""
    if not _running:
        return None
    from callability.otel.spans import TracingHooks  # noqa: PLC0415  # of an extra

    return TracingHooks()


def add_to_span(fields: Mapping[str, str]) -> None:
    """Add fields of ours to the span that is under way; nothing happens if there are no traces."""
    if _running:
        from opentelemetry.trace import get_current_span  # noqa: PLC0415  # of an extra

        from callability.otel.spans import OURS  # noqa: PLC0415  # of an extra

        get_current_span().set_attributes({f"{OURS}{name}": value for name, value in fields.items()})


def _import_tracing() -> Any:
    try:
        from callability.otel import tracing  # noqa: PLC0415  # of an extra
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "opentelemetry":
            raise
        raise NoTraces(_NEEDS) from error
    return tracing
