"""The service as it would be if it counted no calls."""

from __future__ import annotations

from callability.command_line import main
from callability.service.observability import call_metrics
from callability.service.observability.call_metrics import MethodCalls


class UncountedCalls(MethodCalls):
    """Counts nothing."""

    def answered(self, seconds: float) -> None:
        """Count nothing."""

    def ended(self, code: str, seconds: float, reason: str) -> None:
        """Count nothing."""


if __name__ == "__main__":
    vars(call_metrics)["MethodCalls"] = UncountedCalls
    main()
