"""The policy that is served, and the last edit of its files if that was rejected."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from callability.finding import Finding
from callability.kernel.checked_policy import CheckedPolicy
from callability.service.calls.callability_calls import CallabilityCalls
from callability.service.observability.metrics import PolicyMetrics

_METHODS = {
    "CheckTool": "check_tool",
    "CheckTools": "check_tools",
    "ExplainTool": "explain_tool",
    "ClassifyLoad": "classify_load",
    "ClassifyEnable": "classify_enable",
}


@dataclass(frozen=True, slots=True)
class RejectedEdit:
    """An edit that was rejected: the revision of its files, and the findings in them."""

    revision: str
    findings: tuple[Finding, ...]


class ServedPolicy:
    """Answers by one policy until it is replaced; a request is answered by the policy with which it arrived."""

    def __init__(self, checked: CheckedPolicy, metrics: PolicyMetrics | None = None) -> None:
        self.calls = CallabilityCalls(checked, metrics)
        self.replaced = asyncio.Event()
        """Set when another policy decides. Each policy has its own."""
        self.rejected: RejectedEdit | None = None
        self.on_replace: Callable[[], None] | None = None
        """Called when another policy decides."""

    def replace(self, calls: CallabilityCalls) -> None:
        """Answer the requests that arrive from now on by another policy."""
        self.calls = calls
        self.rejected = None
        self.replaced.set()
        self.replaced = asyncio.Event()
        if self.on_replace is not None:
            self.on_replace()

    @property
    def answers(self) -> Mapping[str, Callable[[bytes], Awaitable[bytes]]]:
        """What answers each call of `CallabilityService`."""
        return {name: self._answer(method) for name, method in _METHODS.items()}

    def _answer(self, method: str) -> Callable[[bytes], Awaitable[bytes]]:
        def answer(data: bytes) -> Awaitable[bytes]:
            # The policy is looked up once, when a request begins.
            reply: Awaitable[bytes] = getattr(self.calls, method)(data)
            return reply

        return answer
