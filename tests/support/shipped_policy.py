"""What is decided once in a process of the tests: the shipped policy, and by the rules engine each task.

Most policies of tests differ from the shipped one in one of three rule sets, so the engine would start for the other
two again and again. So does a server that forks from a warm program; one that starts afresh remembers nothing of this.
"""

from __future__ import annotations

import asyncio
import os
from functools import cache

from callability import cli
from callability.compiler import confirmation, policy
from callability.compiler.confirmation import CPU_LIMIT, TIME_LIMIT, Engine, EngineOutput, OnProgress, no_progress, run
from callability.compiler.policy import Check, check_source
from callability.contract.finding import Place
from callability.files import policy_check
from callability.files.policy_source import PolicySource, source_in
from callability.kernel.policy import CheckedPolicy
from support.checkout import POLICY

_SHIPPED = source_in(POLICY)
_LARGE = 1_000_000
"""Characters of a task whose answer is not kept."""


@cache
def _checked(source: PolicySource, engine: Engine | None, advice: bool) -> Check:
    return check_source(source, engine=engine, advice=advice)


def _check_once(
    source: PolicySource,
    *,
    engine: Engine | None = Engine.AUTO,
    seconds: float = TIME_LIMIT,
    progress: OnProgress = no_progress,
    advice: bool = True,
    wants_tests: bool = False,
) -> Check:
    """Check a policy, unless it is the shipped one and was checked before."""
    if progress is no_progress and source.digest == _SHIPPED.digest:
        # It has tests for each rule set, so that nothing differs if they are wanted.
        return _checked(source, engine, advice)
    return check_source(
        source, engine=engine, seconds=seconds, progress=progress, advice=advice, wants_tests=wants_tests
    )


_check_in_child = policy_check.checked_source
_served: list[CheckedPolicy] = []
"""The shipped policy as it is served, once it was checked."""


async def _check_to_serve_once(written: PolicySource) -> CheckedPolicy:
    """Check a policy in a process of its own, unless it is the shipped one and was checked before."""
    if written.digest != _SHIPPED.digest:
        return await _check_in_child(written)
    if not _served:
        checked = await _check_in_child(written)
        assert checked.bundle, checked.findings
        _served.append(checked)
    return _served[0]


_outputs: dict[tuple[str, str], EngineOutput] = {}


def _run_once(
    task: str, place: Place, seconds: float, progress: OnProgress, *, cpu_seconds: int = CPU_LIMIT
) -> EngineOutput:
    """Let the engine decide a task, unless it did before. A limit of its own, or a large task, is always run."""
    if (seconds, cpu_seconds) != (TIME_LIMIT, CPU_LIMIT) or len(task) > _LARGE:
        return run(task, place, seconds, progress, cpu_seconds=cpu_seconds)
    # Tests take the engine away by this variable.
    key = (task, os.environ.get("PYTHONPATH", ""))
    if key in _outputs:
        progress(len(_outputs[key].decisions), 0)
    else:
        _outputs[key] = run(task, place, seconds, progress)
    return _outputs[key]


def check_it_once() -> None:
    """Have every later import of these checks in this process remember the check, and the engine its answers."""
    policy.check_source = _check_once
    policy_check.checked_source = _check_to_serve_once
    # The process would hardly ever be used.
    cli.prepare_check = lambda: None
    confirmation.run = _run_once


def check_it_now() -> None:
    """Check the shipped policy as a service does, and remember it."""
    check_it_once()
    asyncio.run(_check_to_serve_once(_SHIPPED))
