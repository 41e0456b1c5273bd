"""The check of the shipped policy, run once in a process instead of once for each command and gateway of the tests."""

from __future__ import annotations

from functools import cache

from callability.policy import loading
from callability.policy.deciding.engine_process import OnProgress
from callability.policy.deciding.evaluation import TIME_LIMIT, Engine, no_progress
from callability.policy.loading import Check, check_source, source_in
from callability.policy.reading.policy_source import PolicySource
from support.checkout import POLICY

_SHIPPED = source_in(POLICY)


@cache
def _checked(source: PolicySource, engine: Engine | None) -> Check:
    return check_source(source, engine=engine)


def _check_once(
    source: PolicySource,
    *,
    engine: Engine | None = Engine.AUTO,
    seconds: float = TIME_LIMIT,
    progress: OnProgress = no_progress,
) -> Check:
    """Check a policy, unless it is the shipped one and was checked already."""
    if progress is no_progress and source.digest == _SHIPPED.digest:
        return _checked(source, engine)
    return check_source(source, engine=engine, seconds=seconds, progress=progress)


def check_it_once() -> None:
    """Let every later import of `check_source` in this process reuse the check of the shipped policy."""
    loading.check_source = _check_once
