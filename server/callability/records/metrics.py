"""Metrics of records, for Prometheus: how many were written, and how many are lost."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from callability.records.writer import RecordWriter


class RecordMetrics(Collector):
    """The records of one process; there are no series without records."""

    def __init__(self, registry: CollectorRegistry, writer: RecordWriter) -> None:
        self._writer = writer
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Yield the counts."""
        yield CounterMetricFamily("callability_records_written", "Records that were written.", self._writer.written)
        words = "Records that are lost, because their queue was full or their place could not be written."
        yield CounterMetricFamily("callability_records_dropped", words, self._writer.dropped)
