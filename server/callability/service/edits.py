"""Edits of a policy that is served: applied as a whole once they are proved and pass their tests, or rejected."""

from __future__ import annotations

import asyncio
import logging
import pickle
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from callability.bundling import check_worker
from callability.bundling.check_worker import read_output
from callability.child_process.child import NoOutput
from callability.child_process.output import output_of
from callability.finding import MAX_FINDINGS, Finding, Place, finding_lines
from callability.policy.loading import Policy, followed_files, source_in
from callability.policy.reading.policy_source import PolicySource
from callability.service.calls.callability_calls import CallabilityCalls
from callability.service.calls.served_policy import RejectedEdit, ServedPolicy
from callability.service.observability.metrics import PolicyMetrics
from callability.watching import looks

CHECK_SECONDS = 120.0
"""How long the check of an edit may take."""
MAX_LOGGED = 100
"""Findings of an edit that are logged."""
_logger = logging.getLogger(__name__)


class Edits:
    """Follows the files of the policy in a directory; `digest` is that of the files that were loaded."""

    def __init__(self, served: ServedPolicy, directory: Path, digest: str, metrics: PolicyMetrics) -> None:
        self._served = served
        self._directory = directory
        self._seen = digest
        self._metrics = metrics

    async def follow(self) -> None:
        """Apply edits, for ever."""
        async for _ in looks(partial(followed_files, self._directory)):
            try:
                await self._look()
            except Exception:
                _logger.exception("an edit of the policy could not be checked")

    async def _look(self) -> None:
        """Check what was edited since the last time, and again if it was edited during the check."""
        while (written := await asyncio.to_thread(source_in, self._directory)).digest != self._seen:
            try:
                loaded = await _checked(written, self._metrics)
            except Exception:
                # The same files fail again: they are rejected, and not checked at every look.
                _logger.exception("an edit of the policy could not be checked")
                loaded = _unchecked(written, "the service failed; its log says why")
            if (await asyncio.to_thread(source_in, self._directory)).digest != written.digest:
                continue
            self._seen = written.digest
            if isinstance(loaded, RejectedEdit):
                self._reject(loaded)
            else:
                self._apply(*loaded)

    def _apply(self, policy: Policy, calls: CallabilityCalls) -> None:
        self._served.replace(calls)
        _log(logging.WARNING, policy.warnings)
        _logger.info(
            "the edit of the policy is applied: revision %s decides, proved by %s", policy.revision, policy.engine
        )
        self._metrics.decides(policy)
        self._metrics.edited(taken_over=True)

    def _reject(self, rejected: RejectedEdit) -> None:
        self._served.rejected = rejected
        _log(logging.ERROR, rejected.findings)
        decides = self._served.calls.revision
        _logger.error("the edit of the policy is refused: revision %s still decides", decides)
        self._metrics.edited(taken_over=False)


def _log(level: int, findings: Sequence[Finding]) -> None:
    for each in finding_lines(findings, MAX_LOGGED):
        _logger.log(level, "%s", each)


@asynccontextmanager
async def followed(edits: Edits | None) -> AsyncIterator[None]:
    """Follow edits inside the context; None if there are none to follow."""
    if edits is None:
        yield
        return
    following = asyncio.create_task(edits.follow())
    try:
        yield
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def _checked(
    written: PolicySource, metrics: PolicyMetrics | None = None
) -> tuple[Policy, CallabilityCalls] | RejectedEdit:
    """Return the policy with its calls, or the rejected edit."""
    try:
        answer = await output_of(check_worker.__name__, pickle.dumps(written), CHECK_SECONDS)
    except NoOutput as error:
        return _unchecked(written, str(error))
    return await asyncio.to_thread(_loaded, answer, written, metrics)


def _unchecked(written: PolicySource, why: str) -> RejectedEdit:
    finding = Finding(Place(written.shown), "check-failed", f"could not be checked: {why}")
    return RejectedEdit(written.revision, (finding,))


def _loaded(
    answer: bytes, written: PolicySource, metrics: PolicyMetrics | None = None
) -> tuple[Policy, CallabilityCalls] | RejectedEdit:
    check, bundle = read_output(answer)
    if check.policy is None:
        return RejectedEdit(written.revision, check.findings[:MAX_FINDINGS])
    return check.policy, CallabilityCalls(check.policy, metrics, bundle)
