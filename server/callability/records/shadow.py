"""A candidate that decides beside the policy in effect: what it would decide otherwise is recorded and counted.

Nothing is answered by it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from threading import Lock

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from callability.kernel.calls import EncodedCalls
from callability.kernel.envelope import BundleRefused
from callability.kernel.limits import InvalidRequest, finish
from callability.kernel.policy import LocalPolicy
from callability.process.bounded_cache import BoundedCache
from callability.process.logs import LogInterval
from callability.records.format import Change, tool_status
from callability.records.recorder import Recorder
from callability.v1 import callability_service_pb2 as pb
from callability.v1 import verdict_pb2

MAX_STATUSES = 8_192
MAX_BATCHES = 256
MAX_BATCH_BYTES = 65_536
_logger = logging.getLogger(__name__)
_Differences = Counter[tuple[str, str]]


class Shadow(Collector):
    """Decides by a candidate, once there is one. Threads may share it."""

    def __init__(self, registry: CollectorRegistry, recorder: Recorder | None = None) -> None:
        self._calls: EncodedCalls | None = None
        self._recorder = recorder
        self._lock = Lock()
        self._interval = LogInterval()
        self._decisions: Counter[str] = Counter()
        self._differences: Counter[tuple[str, str, str]] = Counter()
        self._statuses: BoundedCache[bytes, int] = BoundedCache(MAX_STATUSES)
        self._batches: BoundedCache[tuple[bytes, bytes], _Differences] = BoundedCache(MAX_BATCHES, MAX_BATCH_BYTES)
        registry.register(self)

    def replace(self, policy: LocalPolicy) -> None:
        """Decide by another candidate from now on."""
        before = self._calls.policy.revision if self._calls is not None else None
        self._calls = EncodedCalls(policy)
        self._batches.clear()
        if self._recorder is not None:
            self._recorder.record_change(Change.SHADOW, applied=True, before=before, after=policy.revision)

    def refuse_edit(self, revision: str) -> None:
        """Keep the candidate; an edit of it does not load."""
        if self._recorder is not None:
            before = self._calls.policy.revision if self._calls is not None else None
            self._recorder.record_change(Change.SHADOW, applied=False, before=before, after=revision)

    def other_reply(self, request: bytes, reply: bytes) -> bytes | None:
        """Return the candidate's reply to a `CheckToolRequest` if its status is another one, and count it."""
        calls = self._calls
        if calls is None:
            return None
        try:
            other = calls.check_tool(request)
        except (InvalidRequest, BundleRefused) as error:
            self._report(error)
            return None
        before, after = self._status(reply), self._status(other)
        with self._lock:
            self._decisions["call"] += 1
            if before != after:
                self._differences["call", tool_status(before), tool_status(after)] += 1
        return other if before != after else None

    def compare(self, request: bytes, reply: bytes) -> None:
        """Count by status how the answer to a `CheckToolsRequest` would differ, tool by tool."""
        calls = self._calls
        if calls is None:
            return
        # The policy in effect may be edited too: its revision is in the reply.
        key = request, reply
        found = self._batches.get(key)
        if found is None:
            try:
                other = pb.CheckToolsResponse.FromString(finish(calls.check_tools(request)))
            except (InvalidRequest, BundleRefused) as error:
                self._report(error)
                return
            found = _differences(pb.CheckToolsResponse.FromString(reply), other)
            self._batches.keep(key, found, len(request))
        with self._lock:
            self._decisions["discovery"] += 1
            for (before, after), number in found.items():
                self._differences["discovery", before, after] += number

    def collect(self) -> Iterator[Metric]:
        """Yield the counts, and which candidate decides."""
        decisions = CounterMetricFamily(
            "callability_shadow_decisions", "Calls and batches that a candidate decided too.", None, ("of",)
        )
        differences = CounterMetricFamily(
            "callability_shadow_differences",
            "Tools about which a candidate would have decided otherwise, in calls and in discovery, by both statuses.",
            None,
            ("of", "status", "candidate"),
        )
        info = GaugeMetricFamily("callability_shadow_info", "1 for the candidate that decides.", None, ("revision",))
        with self._lock:
            counted, differing = dict(self._decisions), dict(self._differences)
        for of in ("call", "discovery"):
            decisions.add_metric((of,), counted.get(of, 0))
        for labels, number in sorted(differing.items()):
            differences.add_metric(labels, number)
        if self._calls is not None:
            info.add_metric((self._calls.policy.revision,), 1)
        yield from (decisions, differences, info)

    def _status(self, reply: bytes) -> int:
        found = self._statuses.get(reply)
        if found is None:
            found = pb.CheckToolResponse.FromString(reply).verdict.status
            self._statuses.keep(reply, found)
        return found

    def _report(self, error: Exception) -> None:
        if self._interval.due("fault"):
            _logger.warning("the candidate cannot decide what was asked: %s", error)


def _differences(answer: pb.CheckToolsResponse, other: pb.CheckToolsResponse) -> _Differences:
    found: _Differences = Counter()
    for ours, theirs in zip(answer.servers, other.servers, strict=True):
        for one, two in zip(ours.results, theirs.results, strict=True):
            before, after = _status_of(one), _status_of(two)
            if before != after:
                found[tool_status(before), tool_status(after)] += 1
    return found


def _status_of(result: pb.ToolResult) -> int:
    """Return the status of an item; one that is an error counts as `disabled_unknown`."""
    return result.verdict.status if result.HasField("verdict") else verdict_pb2.TOOL_STATUS_DISABLED_UNKNOWN
