"""`callability serve` that keeps what it should not: with each edit a copy of the policy, as it was checked."""

from __future__ import annotations

from callability.command_line import main
from callability.policy.reading.policy_source import PolicySource
from callability.service import edits
from callability.service.observability.metrics import PolicyMetrics

_kept: list[object] = []
_loaded = edits._loaded


def _keeping(answer: bytes, written: PolicySource, metrics: PolicyMetrics | None) -> object:
    _kept.append([_loaded(answer, written, metrics) for _ in range(100)])
    return _loaded(answer, written, metrics)


if __name__ == "__main__":
    edits._loaded = _keeping  # type: ignore[assignment]
    main()
