"""The policy in a gateway's own process: compiled from its files, and decided from its bundle."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from threading import Lock

from callability.client import Client
from callability.client.given_policy import GivenPolicy
from callability.command_line.loaded_policy import Loaded
from callability.kernel.checked_policy import CheckedPolicy
from callability.kernel.encoded_results import Counted, EncodedResult, EncodedServerResults, Gap
from callability.kernel.policy import LocalPolicy
from callability.service.calls.served_policy import RejectedEdit
from callability.service.edits import EditReports
from callability.service.observability.gaps import Gaps
from callability.service.observability.metrics import PolicyMetrics


class OwnPolicy:
    """Decides by the policy that was loaded, and by each edit of it that is accepted (`EditSink`).

    Raises:
        RuntimeError: the bundle of the policy is refused; the log says why.
    """

    def __init__(self, loaded: Loaded, metrics: PolicyMetrics) -> None:
        self._given = GivenPolicy(lambda revision: _Locked(Gaps(revision, metrics)))
        self._reports = EditReports(metrics)
        self.replaced: Callable[[], None] = lambda: None
        """Called when an edit was applied."""
        self.is_broken = False
        """Whether the latest edit was rejected."""
        self._policy = self._give(loaded.checked)
        metrics.decides(self._policy, loaded.checked.engine)

    @property
    def client(self) -> Client:
        """What decides."""
        return self._given.client

    async def accepted(self, checked: CheckedPolicy) -> None:
        """Apply an edit that was accepted.

        Raises:
            RuntimeError: its bundle is refused; the log says why.
        """
        self._policy = await asyncio.to_thread(self._give, checked)
        self.is_broken = False
        self._reports.applied(self._policy, checked)
        self.replaced()

    async def rejected(self, rejected: RejectedEdit) -> None:
        """Keep the policy, and report why."""
        self.is_broken = True
        self._reports.rejected(rejected, self._policy.revision)

    def _give(self, checked: CheckedPolicy) -> LocalPolicy:
        policy = self._given.give(checked.bundle)
        if policy is None:
            raise RuntimeError("the bundle of the policy is refused")
        return policy


class _Locked:
    """Counts the decisions of several threads: a large batch is decided beside the event loop."""

    def __init__(self, gaps: Gaps) -> None:
        self._gaps = gaps
        self._lock = Lock()

    def decided(self, kind: Counted) -> None:
        """Count a verdict."""
        with self._lock:
            self._gaps.decided(kind)

    def decided_batch(
        self, fresh: Sequence[Sequence[EncodedResult]], again: Sequence[EncodedServerResults], tools: int
    ) -> None:
        """Count the results of a batch."""
        with self._lock:
            self._gaps.decided_batch(fresh, again, tools)

    def met(self, found: Mapping[Gap, int]) -> None:
        """Count gaps."""
        with self._lock:
            self._gaps.met(found)
