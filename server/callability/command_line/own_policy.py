"""The policy in a gateway's own process: compiled from its files, and decided from its bundle."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager

from callability.bundling.check_worker import read_output
from callability.client import Client, LoggingHooks
from callability.client.given_policy import GivenPolicy
from callability.command_line.decision_counts import DecisionCounts
from callability.command_line.loaded_policy import Loaded
from callability.finding import MAX_FINDINGS
from callability.service.calls.served_policy import RejectedEdit
from callability.service.edits import EditReports
from callability.service.observability.metrics import PolicyMetrics


class _Warnings:
    """Hooks that log what is wrong; which policy decides is reported at each edit."""

    def __init__(self) -> None:
        self._hooks = LoggingHooks()

    def log(self, level: int, event: str, fields: Mapping[str, str | int | float]) -> None:
        """Write an event that is at least a warning."""
        if level >= logging.WARNING:
            self._hooks.log(level, event, fields)

    def metric(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        """Ignore a figure."""

    def span(
        self, name: str, attributes: Mapping[str, str | int | float]
    ) -> AbstractContextManager[Sequence[tuple[str, str]]]:
        """Return a context without an effect."""
        return self._hooks.span(name, attributes)


class OwnPolicy:
    """Decides by the policy that was loaded, and by each edit of it that is accepted (`EditSink`).

    Raises:
        RuntimeError: the bundle of the policy is refused; the log says why.
    """

    def __init__(self, loaded: Loaded, metrics: PolicyMetrics) -> None:
        self._given = GivenPolicy(DecisionCounts(metrics).decided, _Warnings())
        self._reports = EditReports(metrics)
        self._revision = loaded.policy.revision
        self.replaced: Callable[[], None] = lambda: None
        """Called when an edit was applied."""
        self.is_broken = False
        """Whether the latest edit was rejected."""
        self._give(loaded.bundle)
        metrics.decides(loaded.policy)

    @property
    def client(self) -> Client:
        """What decides."""
        return self._given.client

    async def accepted(self, checked: bytes, revision: str) -> bool:
        """Apply an edit by the output of its check, and return whether it decides: the check may reject it.

        Raises:
            RuntimeError: its bundle is refused; the log says why.
        """
        check, bundle = await asyncio.to_thread(read_output, checked)
        policy = check.policy
        if policy is None:
            await self.rejected(RejectedEdit(revision, check.findings[:MAX_FINDINGS]))
            return False
        await asyncio.to_thread(self._give, bundle)
        self.is_broken, self._revision = False, policy.revision
        self._reports.applied(policy)
        self.replaced()
        return True

    async def rejected(self, rejected: RejectedEdit) -> None:
        """Keep the policy, and report why."""
        self.is_broken = True
        self._reports.rejected(rejected, self._revision)

    def _give(self, bundle: bytes) -> None:
        if not self._given.give(bundle):
            raise RuntimeError("the bundle of the policy is refused")
