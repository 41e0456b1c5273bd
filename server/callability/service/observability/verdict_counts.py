"""Verdicts, counted by question, status and rule. A batch is counted later, many together: that costs a tenth."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from typing import TypeVar

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from callability.kernel.encoded_results import Counted, EncodedResult, EncodedServerResults

Item = TypeVar("Item")
MAX_FRESH = 30_000
"""Results of batches that wait to be counted; counting so many takes about a millisecond."""
MAX_AGAIN = 20_000
"""Servers with results that are kept, and that wait to be counted."""


class VerdictCounts(Collector):
    """The number of verdicts of each kind. Only the event loop adds; another thread may collect."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._single: dict[Counted, int] = {}
        self._batched: dict[Counted, int] = {}
        # Appending to them and taking from them are atomic.
        self._fresh: deque[Sequence[EncodedResult]] = deque()
        self._again: deque[EncodedServerResults] = deque()
        self._waiting = 0
        self._lock = threading.Lock()
        registry.register(self)

    def add(self, kind: Counted) -> None:
        """Count one verdict."""
        single = self._single
        single[kind] = single.get(kind, 0) + 1

    def add_batch(
        self, fresh: Sequence[Sequence[EncodedResult]], again: Sequence[EncodedServerResults], tools: int
    ) -> None:
        """Count the results of a batch of so many tools: those that were decided now, and those that were kept."""
        self._fresh.extend(fresh)
        self._again.extend(again)
        if fresh:
            self._waiting += tools
        if self._waiting >= MAX_FRESH or len(self._again) >= MAX_AGAIN:
            self._waiting = 0
            self._count()

    def _count(self) -> None:
        """Count what waits."""
        with self._lock:
            batched = self._batched
            for result, times in Counter(chain.from_iterable([*_taken(self._fresh)])).items():
                batched[result.counted] = batched.get(result.counted, 0) + times
            for results, times in Counter(_taken(self._again)).items():
                for kind, number in results.kinds:
                    batched[kind] = batched.get(kind, 0) + times * number

    def keep(self, rules: Collection[tuple[str, str]]) -> None:
        """End the series of rules that are none of these, each with its question."""
        self._count()
        with self._lock:
            for counts in (self._single, self._batched):
                for kind in [each for each in counts if each.rule and (each.question, each.rule) not in rules]:
                    del counts[kind]

    def collect(self) -> Iterator[Metric]:
        """Yield the counts."""
        family = CounterMetricFamily(
            "callability_verdicts",
            "Verdicts by question, status and rule; the rule is empty if the verdict was undetermined, or an item of a"
            " batch was refused.",
            None,
            ("question", "status", "rule"),
        )
        self._count()
        with self._lock:
            counts = Counter(self._single) + Counter(self._batched)
        for kind, number in sorted(counts.items()):
            family.add_metric(kind, number)
        yield family


def _taken(items: deque[Item]) -> Iterator[Item]:
    while items:
        yield items.popleft()
