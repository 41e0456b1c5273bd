"""The status line of a gateway that runs in a terminal: the state of its servers, and counts."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.text import Text

from callability.gateway.loading import LOADING, in_words
from callability.gateway.observability.metrics import Metrics

REFRESHES_A_SECOND = 2


@contextmanager
def status_line(metrics: Metrics) -> Iterator[None]:
    """Show the line as long as the gateway runs, where standard error is a terminal; it is never part of the log."""
    console = Console(stderr=True)
    if not console.is_terminal or console.is_dumb_terminal:
        yield
        return
    handlers = [each for each in logging.getLogger().handlers if isinstance(each, logging.StreamHandler)]
    with Live(
        console=console,
        get_renderable=lambda: Text(status(metrics), style="reverse", no_wrap=True, overflow="ellipsis"),
        refresh_per_second=REFRESHES_A_SECOND,
        transient=True,
        redirect_stdout=False,
    ):
        # Records go through the console from here on, so that they stand above the line.
        before = [handler.setStream(sys.stderr) for handler in handlers]
        try:
            yield
        finally:
            for handler, stream in zip(handlers, before, strict=True):
                handler.setStream(stream)


def status(metrics: Metrics) -> str:
    """Return the line (FR-013)."""
    count = metrics.opted_in_calls
    times = "once" if count == 1 else f"{count} times"
    loads = metrics.loads()
    servers = in_words(loads) if loads.get(LOADING) else _connected(metrics.servers())
    # What is counted stands first: a narrow terminal cuts the end off.
    return f"callability gateway | include_disabled asked for {times}{_labels(metrics)} | {servers}"


def _labels(metrics: Metrics) -> str:
    if metrics.labels_unchecked:
        return " | labels not checked"
    count = metrics.undeclared_labels
    return f" | undeclared labels or facts: {count}" if count else ""


def _connected(states: Mapping[str, int]) -> str:
    others = "".join(f", {count} {state}" for state, count in sorted(states.items()) if state != "connected")
    return f"{states.get('connected', 0)} of {sum(states.values())} servers connected{others}"
