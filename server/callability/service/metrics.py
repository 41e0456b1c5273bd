"""What the service counts, for Prometheus: calls, callers, verdicts, unread facts; and the log of calls.

A batch is counted later, many together: that costs a tenth.
"""

from __future__ import annotations

import logging
import threading
from bisect import bisect_left
from collections import Counter as Tally
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import TypeAlias, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from callability.contract.vocabulary import ToolStatus
from callability.kernel.policy import LocalPolicy
from callability.kernel.results import Cause, Counted, EncodedResult, EncodedServerResults, Gap
from callability.process import logs
from callability.process.logs import fields
from callability.service.callers import WatchedCallers

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EndedCall:
    """How a call ended: its path on the wire, the name of its code, its duration, and the reason of a refusal."""

    path: str
    code: str
    seconds: float
    reason: str = ""

    @property
    def method(self) -> str:
        """The name of the method."""
        return self.path.rpartition("/")[2]


def log_call(call: EndedCall) -> None:
    """Log a call without anything that was asked or answered."""
    request = logs.current()
    number = "-" if request is None else request.request_id
    caller = "-" if request is None else request.fields.get("caller", "-")
    taken = round(1000 * call.seconds, 3)
    _logger.info(
        "%s ended with %s in %.1f ms (caller %s, request %s)",
        *(call.method, call.code, taken, caller, number),
        extra=fields(
            method=call.method,
            code=call.code,
            milliseconds=taken,
            **({"reason": call.reason} if call.reason else {}),
        ),
    )


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


Observer = Callable[[EndedCall], None]
"""A call that has ended is reported to it, in the context of that call."""
Refusals: TypeAlias = Tally[str]
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

    def count_reply(self, seconds: float) -> None:
        """Count a call with a reply."""
        self.codes["OK"] += 1
        self.seconds.observe(seconds)
        for observe in self._observers:
            observe(EndedCall(self._path, "OK", seconds))

    def count_error(self, code: str, seconds: float, reason: str) -> None:
        """Count a call that ended with an error, by the name of its code."""
        self.codes[code] = self.codes.get(code, 0) + 1
        for observe in self._observers:
            observe(EndedCall(self._path, code, seconds, reason))

    def count_refusal(self, code: str, seconds: float, reason: str) -> None:
        """Count a call that was refused before the service worked on it."""
        self._refusals[reason] += 1
        self.count_error(code, seconds, reason)


class CallMetrics(Collector):
    """All calls. Only the event loop counts; another thread may collect. `observers` get a report of each."""

    def __init__(self, registry: CollectorRegistry | None = None, observers: Sequence[Observer] = ()) -> None:
        self._observers = observers
        self._methods: dict[str, MethodCalls] = {}
        self._refusals = Refusals()
        self.in_progress: Callable[[], int] = lambda: 0
        """How many calls are in progress."""
        self.waiting: Callable[[], int] = lambda: 0
        """How many of them wait for their turn."""
        self.streams: Callable[[], int] = lambda: 0
        """How many streams are open."""
        if registry is not None:
            registry.register(self)

    def of(self, path: str) -> MethodCalls:
        """Return the calls of a method of the service, by its path on the wire."""
        return self._methods.setdefault(path.rpartition("/")[2], MethodCalls(path, self._observers, self._refusals))

    def count_refusal(self, path: str, code: str, reason: str) -> None:
        """Count a call that was refused before the service worked on it, whether or not it counts its method."""
        if method := self._methods.get(path.rpartition("/")[2]):
            method.count_refusal(code, 0.0, reason)
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


class CallerMetrics(Collector):
    """Edits of the callers file, and when each caller has no valid token any more."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._callers: WatchedCallers | None = None
        self._edits = Counter(
            "callability_callers_edits",
            "Edits of the callers file, by whether they were applied.",
            ("applied",),
            registry=registry,
        )
        for applied in ("true", "false"):
            self._edits.labels(applied)
        self._broken = Gauge("callability_callers_broken", "1 while the callers file is refused.", registry=registry)
        registry.register(self)

    def follow(self, callers: WatchedCallers) -> None:
        """Record the callers, and each edit of them."""
        self._callers = callers

        def set_in_effect(in_effect: bool) -> None:
            self._edits.labels(str(in_effect).lower()).inc()
            self._broken.set(not in_effect)

        callers.changed = set_in_effect

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


Item = TypeVar("Item")
MAX_FRESH = 30_000
"""Results of batches that wait to be counted; counting so many takes about a millisecond."""
MAX_AGAIN = 20_000
"""Servers with results that are kept, and that wait to be counted."""


class VerdictCounts(Collector):
    """The number of verdicts of each kind, and of tools in each batch.

    Only the event loop adds; another thread may collect.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._single: dict[Counted, int] = {}
        self._batched: dict[Counted, int] = {}
        # Appending to them and taking from them are atomic.
        self._fresh: deque[Sequence[EncodedResult]] = deque()
        self._again: deque[EncodedServerResults] = deque()
        self._waiting = 0
        self._tools = Distribution(TOOLS)
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
        self._tools.observe(tools)
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
            for result, times in Tally(chain.from_iterable([*_take_all(self._fresh)])).items():
                batched[result.counted] = batched.get(result.counted, 0) + times
            for results, times in Tally(_take_all(self._again)).items():
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
            counts = Tally(self._single) + Tally(self._batched)
        for kind, number in sorted(counts.items()):
            family.add_metric(kind, number)
        yield family
        refusals = CounterMetricFamily(
            "callability_refusals",
            "Decisions about single tools, which are about calls, that were not callable, by status and rule.",
            None,
            ("status", "rule"),
        )
        with self._lock:
            single = Tally(self._single)
        for kind, number in sorted(single.items()):
            if kind.question == "callability" and kind.status != ToolStatus.CALLABLE:
                refusals.add_metric((kind.status, kind.rule), number)
        yield refusals
        batches = HistogramMetricFamily("callability_batch_tools", "Tools in each `CheckTools`.")
        self._tools.add_to(batches, ())
        yield batches


def _take_all(items: deque[Item]) -> Iterator[Item]:
    while items:
        yield items.popleft()


class PolicyMetrics:
    """The policy that decides, the edits of its files, and undetermined decisions."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._edits = Counter(
            "callability_policy_edits",
            "Edits of the policy's files while it is served, by whether they were applied.",
            ("applied",),
            registry=registry,
        )
        for applied in ("true", "false"):
            self._edits.labels(applied)
        self._broken = Gauge(
            "callability_policy_broken", "1 while the policy as written has errors.", registry=registry
        )
        self._undetermined = Counter(
            "callability_undetermined_decisions",
            "Decisions that were undetermined because a fact was unknown, by question, fact and cause: the caller left"
            " it out, or sent a value that is not understood.",
            ("question", "fact", "cause"),
            registry=registry,
        )
        self._undeclared = Counter(
            "callability_undeclared_facts",
            "Facts in requests that the rule file does not declare, by what they are facts of. They are ignored.",
            ("of",),
            registry=registry,
        )
        for subject in ("server", "tool", "agent"):
            self._undeclared.labels(subject)
        self._inner_nodes = Gauge(
            "callability_policy_inner_nodes",
            "Inner nodes of the decision diagram that decides, by question.",
            ("question",),
            registry=registry,
        )
        self._regions = Gauge(
            "callability_policy_regions",
            "Regions of the decision diagram that decides, by question: paths from its root to a verdict.",
            ("question",),
            registry=registry,
        )
        self._witnesses = Gauge(
            "callability_policy_witnesses",
            "Combinations that the engine decided to confirm the decision diagram, by question.",
            ("question",),
            registry=registry,
        )
        self._applied = Gauge(
            "callability_policy_applied_timestamp_seconds",
            "When the policy that decides took effect, in seconds since 1970.",
            registry=registry,
        )
        self.verdicts = VerdictCounts(registry)
        self._series: set[tuple[str, str, str]] = set()
        self._info = Gauge(
            "callability_policy_info", "1 for the policy that decides.", ("revision", "engine"), registry=registry
        )

    def decides(self, policy: LocalPolicy, engine: str) -> None:
        """Record which policy decides, and what confirmed it; series of facts that its rules do not read end."""
        self._info.clear()
        self._info.labels(policy.revision, engine).set(1)
        self._applied.set_to_current_time()
        self.verdicts.keep({(name, rule.id) for name, rules in policy.rule_sets.items() for rule in rules.rules})
        for name, rules in policy.rule_sets.items():
            self._inner_nodes.labels(name).set(rules.inner_nodes)
            self._regions.labels(name).set(rules.counts.regions)
            self._witnesses.labels(name).set(rules.counts.witnesses)
        read = {
            (name, fact)
            for name, rules in policy.rule_sets.items()
            for rule in rules.rules
            for fact in rule.reads
            if not rules.question.facts[fact].asserted
        }
        for series in [each for each in self._series if each[:2] not in read]:
            self._series.discard(series)
            self._undetermined.remove(*series)
        for question, fact in read:
            self.count_undetermined(question, fact, "left_out", 0)

    def count_undetermined(self, question: str, fact: str, cause: str, decisions: int) -> None:
        """Count decisions that an unknown fact kept undetermined."""
        self._series.add((question, fact, cause))
        self._undetermined.labels(question, fact, cause).inc(decisions)

    def count_undeclared(self, subject: str, facts: int) -> None:
        """Count facts of servers, tools or agents that the rule file does not declare."""
        self._undeclared.labels(subject).inc(facts)

    def count_edit(self, *, applied: bool) -> None:
        """Count an edit."""
        self._edits.labels(str(applied).lower()).inc()
        self.refuses(files=not applied)

    def refuses(self, *, files: bool) -> None:
        """Note whether the policy as written is refused."""
        self._broken.set(files)


_SAID: Mapping[Cause, str] = {
    Cause.LEFT_OUT: "a caller leaves out `{1}`, which a rule of `{0}` reads, so that the answer is undetermined",
    Cause.NOT_UNDERSTOOD: "a caller sends a value of `{1}` that `{0}` does not declare, so that the answer is"
    " undetermined",
    Cause.UNDECLARED: "a caller sends a fact of a {1} that `{0}` does not declare: it is ignored",
}


class Gaps:
    """The gaps of the decisions by one policy. Values of facts are neither counted nor logged."""

    def __init__(self, revision: str, metrics: PolicyMetrics) -> None:
        self._revision = revision
        self._metrics = metrics
        self._logged: set[Gap] = set()

    def count_verdict(self, kind: Counted) -> None:
        """Count a verdict, unless it is for a report about locks."""
        if not logs.is_report():
            self._metrics.verdicts.add(kind)

    def decided_batch(
        self, fresh: Sequence[Sequence[EncodedResult]], again: Sequence[EncodedServerResults], tools: int
    ) -> None:
        """Count the results of a batch about so many tools: decided now, or kept."""
        self._metrics.verdicts.add_batch(fresh, again, tools)

    def count_gaps(self, found: Mapping[Gap, int]) -> None:
        """Count how many decisions had each gap, and log each that this policy had not had before."""
        for gap, decisions in found.items():
            if gap.cause is Cause.UNDECLARED:
                self._metrics.count_undeclared(gap.fact, decisions)
            else:
                self._metrics.count_undetermined(*gap, decisions)
            if gap not in self._logged:
                self._logged.add(gap)
                said = _SAID[gap.cause].format(*gap)
                about = fields(fact=gap.fact, cause=gap.cause.value, revision=self._revision)
                _logger.warning("%s (policy %s)", said, self._revision, extra=about)
