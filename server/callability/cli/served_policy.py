"""The policy that a command serves: a process of its own checks it, so that no compiler is imported here."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Thread

from callability.cli.options import POLICY_REFUSED, PolicyRefused, refuse
from callability.contract.finding import finding_lines
from callability.files.policy_check import checked_source
from callability.files.policy_origin import PolicyOrigin
from callability.files.policy_source import PolicySource
from callability.kernel.policy import CheckedPolicy


@dataclass(frozen=True, slots=True)
class Loaded:
    """A policy that was accepted, and the source that it was loaded from."""

    checked: CheckedPolicy
    source: PolicySource


def loaded_from(origin: PolicyOrigin) -> Loaded:
    """Return the policy of an origin with its source, so that edits are noticed.

    Warnings go to the log. A policy that is refused exits with code 1.
    """
    try:
        return asyncio.run(load_policy_of(origin))
    except PolicyRefused as refused:
        refuse(refused.findings, POLICY_REFUSED)


@contextmanager
def loading(origin: PolicyOrigin) -> Iterator[Callable[[], Loaded]]:
    """Load the policy of an origin beside what this thread does inside the context; yield what waits for it.

    That exits as `loaded_from` does. Leaving the context ends a check that is still going on.
    """
    loop = asyncio.new_event_loop()
    task = loop.create_task(load_policy_of(origin))
    thread = Thread(target=loop.run_until_complete, args=(asyncio.wait([task]),), name="loading the policy")

    def wait() -> Loaded:
        thread.join()
        try:
            return task.result()
        except PolicyRefused as refused:
            refuse(refused.findings, POLICY_REFUSED)

    thread.start()
    try:
        yield wait
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join()
        if not task.cancelled():
            # What another fault made superfluous is not reported.
            task.exception()
        loop.close()


async def load_policy_of(origin: PolicyOrigin) -> Loaded:
    """Return the policy of an origin with its source; warnings go to the log.

    Raises:
        PolicyRefused: it has errors.
    """
    source = await asyncio.to_thread(origin.source)
    checked = await checked_source(source)
    if not checked.bundle:
        raise PolicyRefused(checked.findings)
    origin.accept(source)
    for each in finding_lines(checked.findings):
        logging.getLogger(__name__).warning("%s", each)
    return Loaded(checked, source)
