"""The metrics of all workers at one endpoint: each series with the number of its worker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import TimeoutError as NotInTime

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from callability.service.supervisor import COLLECT_SECONDS, Supervisor

_SUPERVISOR = "supervisor"


class WorkerMetrics(Collector):
    """Collects in a thread of the endpoint what the workers send to the supervisor in the event loop."""

    def __init__(self, supervisor: Supervisor, loop: asyncio.AbstractEventLoop) -> None:
        self._supervisor = supervisor
        self._loop = loop
        own = CollectorRegistry()
        ProcessCollector(registry=own)
        self._own = own

    def describe(self) -> list[Metric]:
        """Return nothing: the workers are asked at each scrape, and not before."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield every metric of every worker, and those of the supervisor."""
        yield GaugeMetricFamily("callability_workers_running", "Workers that run.", self._supervisor.running)
        yield CounterMetricFamily(
            "callability_worker_restarts", "Workers that ended and were started again.", self._supervisor.restarts
        )
        found = asyncio.run_coroutine_threadsafe(self._supervisor.collect(), self._loop)
        try:
            by_worker = dict(found.result(2 * COLLECT_SECONDS))
        except NotInTime:
            by_worker = {}
        families: dict[str, Metric] = {}
        for worker, metrics in (
            *((str(number), each) for number, each in sorted(by_worker.items())),
            (_SUPERVISOR, list(self._own.collect())),
        ):
            for metric in metrics:
                family = families.setdefault(metric.name, Metric(metric.name, metric.documentation, metric.type))
                for sample in metric.samples:
                    family.add_sample(sample.name, {**sample.labels, "worker": worker}, sample.value)
        yield from families.values()
