"""Metrics of the callers of the service."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from callability.service.callers.watched_callers import WatchedCallers


class CallerMetrics(Collector):
    """Edits of the callers file, and when each caller has no valid token any more."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._callers: WatchedCallers | None = None
        self._edits = Counter(
            "callability_callers_edits",
            "Edits of the callers file, by whether they were applied.",
            ("taken_over",),
            registry=registry,
        )
        for taken_over in ("true", "false"):
            self._edits.labels(taken_over)
        self._broken = Gauge("callability_callers_broken", "1 while the callers file is refused.", registry=registry)
        registry.register(self)

    def follow(self, callers: WatchedCallers) -> None:
        """Record the callers, and each edit of them."""
        self._callers = callers

        def changed(in_effect: bool) -> None:
            self._edits.labels(str(in_effect).lower()).inc()
            self._broken.set(not in_effect)

        callers.changed = changed

    def collect(self) -> Iterator[Metric]:
        """Yield when the last token of each caller expires."""
        family = GaugeMetricFamily(
            "callability_caller_expires_timestamp_seconds",
            "When the last token of a caller expires, in seconds since 1970.",
            None,
            ("caller",),
        )
        for caller in self._callers.callers.every if self._callers else ():
            if caller.tokens:
                family.add_metric((caller.name,), max(token.expires.timestamp() for token in caller.tokens))
        yield family
