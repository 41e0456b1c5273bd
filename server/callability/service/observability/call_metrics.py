"""Calls over gRPC, counted by method and code, with how long they took; cheap enough for every call."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import TypeAlias

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from callability.service.observability.call_log import EndedCall

SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""The upper bounds of the buckets of durations."""
TOOLS = (1, 10, 50, 100, 500, 1_000, 2_500, 5_000, 10_000, 20_000)
"""The upper bounds of the buckets of tools in a batch."""


class Distribution:
    """How many values were at most each of some bounds, and their sum."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def add_to(self, family: HistogramMetricFamily, labels: Sequence[str]) -> None:
        """Add the current state to a family."""
        names = [*(f"{bound:g}" for bound in self._bounds), "+Inf"]
        family.add_metric(labels, [*zip(names, accumulate(self._counts), strict=True)], self._sum)


class BatchSizes(Collector):
    """The tools of each batch."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._tools = Distribution(TOOLS)
        registry.register(self)

    def observe(self, tools: int) -> None:
        """Count a batch."""
        self._tools.observe(tools)

    def collect(self) -> Iterator[Metric]:
        """Yield the distribution."""
        family = HistogramMetricFamily("callability_batch_tools", "Tools in each `CheckTools`.")
        self._tools.add_to(family, ())
        yield family


Observer = Callable[[EndedCall], None]
"""A call that has ended is reported to it, in the context of that call."""
Refusals: TypeAlias = Counter[str]
"""How many calls of all methods were refused, by reason."""


class MethodCalls:
    """The calls of one method: by code, and how long the service took to answer those with a reply."""

    __slots__ = ("_observers", "_path", "_refusals", "codes", "seconds")

    def __init__(self, path: str, observers: Sequence[Observer], refusals: Refusals) -> None:
        self._path = path
        self._observers = observers
        self._refusals = refusals
        self.codes: dict[str, int] = {"OK": 0}
        self.seconds = Distribution(SECONDS)

    def answered(self, seconds: float) -> None:
        """Count a call with a reply."""
        self.codes["OK"] += 1
        self.seconds.observe(seconds)
        for observe in self._observers:
            observe(EndedCall(self._path, "OK", seconds))

    def ended(self, code: str, seconds: float, reason: str) -> None:
        """Count a call that ended with an error, by the name of its code."""
        self.codes[code] = self.codes.get(code, 0) + 1
        for observe in self._observers:
            observe(EndedCall(self._path, code, seconds, reason))

    def refused(self, code: str, seconds: float, reason: str) -> None:
        """Count a call that was refused before the service worked on it."""
        self._refusals[reason] += 1
        self.ended(code, seconds, reason)


def _none() -> int:
    return 0


class CallMetrics(Collector):
    """All calls. Only the event loop counts; another thread may collect. `observers` get a report of each."""

    def __init__(self, registry: CollectorRegistry | None = None, observers: Sequence[Observer] = ()) -> None:
        self._observers = observers
        self._methods: dict[str, MethodCalls] = {}
        self._refusals = Refusals()
        self.in_progress: Callable[[], int] = _none
        """How many calls are in progress."""
        self.waiting: Callable[[], int] = _none
        """How many of them wait for their turn."""
        self.streams: Callable[[], int] = _none
        """How many streams are open."""
        if registry is not None:
            registry.register(self)

    def of(self, path: str) -> MethodCalls:
        """Return the calls of a method of the service, by its path on the wire."""
        return self._methods.setdefault(path.rpartition("/")[2], MethodCalls(path, self._observers, self._refusals))

    def refused(self, path: str, code: str, reason: str) -> None:
        """Count a call that was refused before the service worked on it, whether or not it counts its method."""
        if method := self._methods.get(path.rpartition("/")[2]):
            method.refused(code, 0.0, reason)
        else:
            self._refusals[reason] += 1

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of calls."""
        calls = CounterMetricFamily(
            "callability_calls", "Calls over gRPC that ended, by method and code.", None, ("method", "code")
        )
        seconds = HistogramMetricFamily(
            "callability_call_seconds",
            "Seconds from the arrival of a request in the service to its reply, by method.",
            None,
            None,
            ("method",),
        )
        for name, method in sorted(dict(self._methods).items()):
            for code, number in sorted(dict(method.codes).items()):
                calls.add_metric((name, code), number)
            method.seconds.add_to(seconds, (name,))
        refusals = CounterMetricFamily(
            "callability_refused_calls",
            "Calls that were refused before the service worked on them, by reason.",
            None,
            ("reason",),
        )
        for reason, number in sorted(dict(self._refusals).items()):
            refusals.add_metric((reason,), number)
        yield from (calls, seconds, refusals)
        yield GaugeMetricFamily("callability_calls_in_progress", "Calls in progress.", self.in_progress())
        yield GaugeMetricFamily("callability_calls_waiting", "Calls in progress that wait for a turn.", self.waiting())
        yield GaugeMetricFamily("callability_streams", "Streams without an end that are open.", self.streams())
