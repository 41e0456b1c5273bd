"""`callability serve` that keeps what it should not: with each edit a copy of the policy, as it was checked."""

from __future__ import annotations

from callability.command_line import main
from callability.service import edits
from callability.service.calls.served_policy import RejectedEdit
from callability.service.observability.metrics import PolicyMetrics

_kept: list[object] = []
_loaded_edit = edits.loaded_edit


def _keeping(checked: bytes, revision: str, metrics: PolicyMetrics | None = None) -> edits.LoadedEdit | RejectedEdit:
    _kept.append([_loaded_edit(checked, revision, metrics) for _ in range(100)])
    return _loaded_edit(checked, revision, metrics)


if __name__ == "__main__":
    edits.loaded_edit = _keeping
    main()
