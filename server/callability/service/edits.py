"""Edits of a policy that is served: applied as a whole once they are proved and pass their tests, or rejected."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from callability.contract.finding import MAX_FINDINGS, Finding, finding_lines, list_names
from callability.files.policy_check import checked_source, uncheckable
from callability.files.policy_origin import PolicyOrigin
from callability.files.policy_source import PolicySource
from callability.files.watching import looks
from callability.kernel.policy import CheckedPolicy, LocalPolicy, read
from callability.process.logs import fields
from callability.records.format import Change
from callability.records.recorder import Recorder
from callability.records.shadow import Shadow
from callability.service.calls import CallabilityCalls, RejectedEdit, ServedPolicy
from callability.service.metrics import PolicyMetrics

MAX_LOGGED = 100
"""Findings of an edit that are logged."""
_logger = logging.getLogger(__name__)


class EditSink(Protocol):
    """Where edits take effect."""

    async def accept(self, checked: CheckedPolicy) -> None:
        """Apply an edit that was accepted."""

    async def report_rejected(self, rejected: RejectedEdit) -> None:
        """Report an edit that was rejected, or could not be checked."""


class EditReports:
    """Reports edits by the log, by metrics and by records, if there are any."""

    def __init__(self, metrics: PolicyMetrics, recorder: Recorder | None) -> None:
        self._metrics = metrics
        self._recorder = recorder

    def report_applied(self, policy: LocalPolicy, checked: CheckedPolicy, before: str) -> None:
        """Report that the policy of an edit decides from now on, after that of the revision `before`."""
        if self._recorder is not None:
            self._recorder.record_change(Change.POLICY, applied=True, before=before, after=policy.revision)
        _log(logging.WARNING, checked.findings)
        _logger.info(
            "the edit of the policy is applied: revision %s decides, proved by %s",
            *(policy.revision, checked.engine),
            extra=fields(revision=policy.revision),
        )
        self._metrics.decides(policy, checked.engine)
        self._metrics.count_edit(applied=True)

    def report_rejected(self, rejected: RejectedEdit, decides: str) -> None:
        """Report that an edit was rejected, and which revision decides."""
        if self._recorder is not None:
            self._recorder.record_change(Change.POLICY, applied=False, before=decides, after=rejected.revision)
        _log(logging.ERROR, rejected.findings)
        words = "the edit of the policy is refused: revision %s still decides"
        _logger.error(words, decides, extra=fields(revision=decides))
        self._metrics.count_edit(applied=False)


class ServedEdits:
    """Edits of the policy that is served in this process."""

    def __init__(self, served: ServedPolicy, metrics: PolicyMetrics) -> None:
        self._served = served
        self._metrics = metrics
        self._reports = EditReports(metrics, served.recorder)

    async def accept(self, checked: CheckedPolicy) -> None:
        """Decide by an edit that was accepted from now on."""
        calls = await asyncio.to_thread(CallabilityCalls, checked, self._metrics)
        before = self._served.calls.revision
        self._served.replace(calls)
        self._reports.report_applied(calls.policy, checked, before)

    async def report_rejected(self, rejected: RejectedEdit) -> None:
        """Keep the policy, and report why the edit was rejected, or could not be checked."""
        self._served.rejected = rejected
        self._reports.report_rejected(rejected, self._served.calls.revision)


class ShadowEdits:
    """Edits of a candidate; one that does not load changes nothing."""

    def __init__(self, shadow: Shadow) -> None:
        self._shadow = shadow

    async def accept(self, checked: CheckedPolicy) -> None:
        """Let the candidate of an edit decide."""
        policy = await asyncio.to_thread(read, checked.bundle)
        self._shadow.replace(policy)
        _logger.info("the candidate decides beside the policy in effect: revision %s", policy.revision)

    async def report_rejected(self, rejected: RejectedEdit) -> None:
        """Report that the candidate as it is written does not load."""
        _log(logging.WARNING, rejected.findings)
        _logger.warning("the candidate of `--shadow` does not load: what decided beside the policy before still does")
        self._shadow.refuse_edit(rejected.revision)


def shadow_edits(shadow: Shadow, origin: PolicyOrigin) -> Edits:
    """Return the edits of a candidate, the first of which is the candidate as it is: no start waits for it."""
    return Edits(ShadowEdits(shadow), origin, "", CheckedPolicy(b"", ()))


class Edits:
    """Follows where a policy is read from; `loaded` is what was loaded, and `digest` that of its source."""

    def __init__(self, sink: EditSink, origin: PolicyOrigin, digest: str, loaded: CheckedPolicy) -> None:
        self._sink = sink
        self._origin = origin
        self._seen = digest
        self._tests = loaded.tests

    async def follow(self) -> None:
        """Apply edits, for ever."""
        async for _ in looks(self._origin.watched_paths):
            try:
                await self._look()
            except Exception:
                _logger.exception("an edit of the policy could not be checked")

    async def _look(self) -> None:
        """Check what was edited since the last time, and again if it was edited during the check."""
        while (written := await asyncio.to_thread(self._origin.source)).digest != self._seen:
            checked = await checked_source(written)
            if (await asyncio.to_thread(self._origin.source)).digest != written.digest:
                continue
            self._seen = written.digest
            await self._apply(checked, written)

    async def _apply(self, checked: CheckedPolicy, written: PolicySource) -> None:
        if not checked.bundle:
            await self._sink.report_rejected(RejectedEdit(written.revision, checked.findings[:MAX_FINDINGS]))
            return
        try:
            await self._sink.accept(checked)
            self._origin.accept(written)
            self._report_lost_tests(checked.tests)
        except Exception:
            # The same files fail again: they are rejected, and not checked at every look.
            _logger.exception("an edit of the policy could not be applied")
            unchecked = uncheckable(written, "the service failed; its log says why")
            await self._sink.report_rejected(RejectedEdit(written.revision, unchecked.findings))

    def _report_lost_tests(self, tests: tuple[str, ...]) -> None:
        """Warn of tests that the policy had before: what they held to is no longer checked at an edit."""
        lost = [test for test in self._tests if test not in {*tests}]
        self._tests = tests
        if lost:
            left = f"{len(tests):,} are left" if tests else "none is left"
            number = "a test" if len(lost) == 1 else f"{len(lost):,} tests"
            _logger.warning("the edit of the policy loses %s, and %s: %s", number, left, list_names(lost))


def _log(level: int, findings: Sequence[Finding]) -> None:
    for each in finding_lines(findings, MAX_LOGGED):
        _logger.log(level, "%s", each)
