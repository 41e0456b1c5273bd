"""`callability serve` that keeps what it should not: with each edit a hundred copies of the policy."""

from __future__ import annotations

from callability.cli import main
from callability.kernel.policy import CheckedPolicy
from callability.service import edits
from callability.service.calls import CallabilityCalls
from callability.service.metrics import PolicyMetrics

_kept: list[object] = []


def _keeping(checked: CheckedPolicy, metrics: PolicyMetrics | None = None) -> CallabilityCalls:
    _kept.append([CallabilityCalls(checked, metrics) for _ in range(100)])
    return CallabilityCalls(checked, metrics)


if __name__ == "__main__":
    vars(edits)["CallabilityCalls"] = _keeping
    main()
