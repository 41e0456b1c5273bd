"""What a client reports about itself, and its errors: no answer, and a request that is refused."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol


class PolicyUnavailable(Exception):
    """The policy gave no answer. That is not a status, and nothing may be called (A.7).

    The text is safe to pass to `adapter.unavailable`. `code` is the name of the gRPC code of the last attempt, such as
    `UNAVAILABLE` or `DEADLINE_EXCEEDED`. `details` are what the transport said, or why a client that decides in its
    process has no policy. They are for the log of the proxy, and may name an address or a path.
    """

    def __init__(self, reason: str, code: str, details: str = "") -> None:
        super().__init__(reason)
        self.code = code
        self.details = details


class InvalidRequest(ValueError):
    """The policy refuses a request as invalid: it is malformed or over a limit. A retry cannot help."""


class ClientClosed(RuntimeError):
    """A call of a client that was closed."""


Fields = Mapping[str, str | int | float]
"""What an event, a figure or a span is about."""
Metadata = Sequence[tuple[str, str]]
"""What is sent with a call, such as `traceparent`."""

_logger = logging.getLogger("callability.client")


class Hooks(Protocol):
    """Receives what a client reports. Its methods are called from several threads, and must not block.

    A hook that raises does not fail a call: the error goes to the logger `callability.client`. No hook receives the
    name of a tool, a server or an agent, nor any text of theirs.
    """

    def log(self, level: int, event: str, fields: Fields) -> None:
        """Take an event, such as `replica_down`; `level` is one of `logging`."""

    def metric(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        """Take a figure: an increment if the name ends in `_total`, a duration in seconds to observe if it ends in
        `_call_seconds`, and otherwise the current value.
        """

    def span(self, name: str, attributes: Fields) -> AbstractContextManager[Metadata]:
        """Return a context in which a call is made; it yields the metadata to send with the call."""


class DecisionHook(Protocol):
    """Receives each decision of a local client about a call, a load or an enable; never those of discovery.

    It is called from several threads and must not block. If it raises, the decision stands, and the error goes to the
    logger `callability.client`. What it receives has names, so that it is no part of `Hooks`.
    """

    def __call__(self, method: str, request: bytes, reply: bytes, seconds: float) -> None:
        """Take a decision: `CheckTool`, `ClassifyLoad` or `ClassifyEnable`, and both messages as they are encoded."""


class LoggingHooks:
    """Writes events to the logger `callability.client`, their fields as `extra` too, and ignores the rest."""

    def log(self, level: int, event: str, fields: Fields) -> None:
        """Write an event."""
        said = " ".join(f"{key}={value}" for key, value in fields.items())
        _logger.log(level, "%s %s", event, said, extra={"event": event, "fields": dict(fields)})

    def metric(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        """Ignore a figure."""

    def span(self, name: str, attributes: Fields) -> AbstractContextManager[Metadata]:
        """Return a context without an effect."""
        return nullcontext(())


class GuardedHooks:
    """Passes everything on to other hooks, of events those of at least a level; what these raise is logged and goes no
    further.
    """

    def __init__(self, hooks: Hooks, least: int = logging.NOTSET) -> None:
        self._hooks = hooks
        self._least = least

    def log(self, level: int, event: str, fields: Fields) -> None:
        """Report an event."""
        if level < self._least:
            return
        try:
            self._hooks.log(level, event, fields)
        except Exception:
            _logger.exception("a hook failed at the event %s", event)

    def metric(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        """Report a figure."""
        try:
            self._hooks.metric(name, value, labels)
        except Exception:
            _logger.exception("a hook failed at the metric %s", name)

    @contextmanager
    def span(self, name: str, attributes: Fields) -> Iterator[Metadata]:
        """Make a call within a span; the span sees how the call ends, and does not change it."""
        try:
            span = self._hooks.span(name, attributes)
            metadata = tuple(span.__enter__())
        except Exception:
            _logger.exception("a hook failed at the span %s", name)
            yield ()
            return
        try:
            yield metadata
        except BaseException as error:
            self._end(span, name, error)
            raise
        self._end(span, name, None)

    @staticmethod
    def _end(span: AbstractContextManager[Metadata], name: str, error: BaseException | None) -> None:
        try:
            span.__exit__(type(error) if error else None, error, error.__traceback__ if error else None)
        except Exception:
            _logger.exception("a hook failed at the end of the span %s", name)
