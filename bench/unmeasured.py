"""The service as it would be if it counted no calls."""

from __future__ import annotations

from callability.cli import main
from callability.service import metrics
from callability.service.metrics import MethodCalls


class UncountedCalls(MethodCalls):
    """Counts nothing."""

    def count_reply(self, seconds: float) -> None:
        """Count nothing."""

    def count_error(self, code: str, seconds: float, reason: str) -> None:
        """Count nothing."""


if __name__ == "__main__":
    vars(metrics)["MethodCalls"] = UncountedCalls
    main()
