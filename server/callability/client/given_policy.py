"""A policy that a proxy compiles itself, and that decides in its process."""

from __future__ import annotations

import math
from collections.abc import Callable

from callability.client.client import Client
from callability.client.held_policy import HeldPolicy
from callability.client.hooks import GuardedHooks, Hooks, LoggingHooks
from callability.client.local import AsyncioLocal, LocalDecisions
from callability.kernel.calls import UNOBSERVED
from callability.kernel.encoded_results import Observer
from callability.kernel.policy import LocalPolicy


class GivenPolicy:
    """Decides by the bundle that was given last. Nothing else knows a newer one, so it is never too old.

    Args:
        observed: returns what counts the decisions by a policy with a revision.
        hooks: what takes events, figures and spans; by default, events go to a logger.
    """

    def __init__(self, observed: Callable[[str], Observer] = lambda _: UNOBSERVED, hooks: Hooks | None = None) -> None:
        guarded = GuardedHooks(hooks or LoggingHooks())
        self._held = HeldPolicy(math.inf, guarded, observed=observed)
        self.client = Client(AsyncioLocal(LocalDecisions(self._held, _Nothing(), guarded)))
        """What decides by it."""

    def give(self, bundle: bytes) -> LocalPolicy | None:
        """Decide by a bundle from now on, and return its policy; None if it is refused: then nothing changes."""
        return self._held.policy if self._held.accept(bundle, rollback=True) else None


class _Nothing:
    """There is no source to follow."""

    def open(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""
