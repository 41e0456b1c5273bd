"""Metrics of the policy, for Prometheus."""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge

from callability.kernel.encoded_results import EncodedResult, EncodedServerResults
from callability.kernel.policy import LocalPolicy
from callability.service.observability.call_metrics import BatchSizes
from callability.service.observability.verdict_counts import VerdictCounts


class PolicyMetrics:
    """The policy that decides, the edits of its files, and undetermined decisions."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._edits = Counter(
            "callability_policy_edits",
            "Edits of the policy's files while it is served, by whether they were applied.",
            ("taken_over",),
            registry=registry,
        )
        for taken_over in ("true", "false"):
            self._edits.labels(taken_over)
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
        self._batches = BatchSizes(registry)
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
            self.undetermined(question, fact, "left_out", 0)

    def undetermined(self, question: str, fact: str, cause: str, decisions: int) -> None:
        """Count decisions that an unknown fact kept undetermined."""
        self._series.add((question, fact, cause))
        self._undetermined.labels(question, fact, cause).inc(decisions)

    def batch(
        self, fresh: Sequence[Sequence[EncodedResult]], again: Sequence[EncodedServerResults], tools: int
    ) -> None:
        """Count the results of a batch, decided now or kept, and its tools."""
        self.verdicts.add_batch(fresh, again, tools)
        self._batches.observe(tools)

    def undeclared(self, subject: str, facts: int) -> None:
        """Count facts of servers, tools or agents that the rule file does not declare."""
        self._undeclared.labels(subject).inc(facts)

    def edited(self, *, taken_over: bool) -> None:
        """Count an edit."""
        self._edits.labels(str(taken_over).lower()).inc()
        self.refuses(files=not taken_over)

    def refuses(self, *, files: bool) -> None:
        """Note whether the policy as written is refused."""
        self._broken.set(files)
