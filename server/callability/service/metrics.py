"""Counts of the policy, as Prometheus reads them."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

from callability.policy.loading import Policy


class PolicyMetrics:
    """Which policy decides, and what became of edits of its files."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._edits = Counter(
            "callability_policy_edits",
            "Edits of the policy's files while it is served, by whether they were taken over.",
            ("taken_over",),
            registry=registry,
        )
        for taken_over in ("true", "false"):
            self._edits.labels(taken_over)
        self._broken = Gauge(
            "callability_policy_broken", "1 while the policy is not sound as it is written.", registry=registry
        )
        self._info = Gauge(
            "callability_policy_info", "1 for the policy that decides.", ("revision", "engine"), registry=registry
        )

    def decides(self, policy: Policy) -> None:
        """Note which policy decides."""
        self._info.clear()
        self._info.labels(policy.revision, policy.engine).set(1)

    def edited(self, *, taken_over: bool) -> None:
        """Count an edit."""
        self._edits.labels(str(taken_over).lower()).inc()
        self._broken.set(not taken_over)
