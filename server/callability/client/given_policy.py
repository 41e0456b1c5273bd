"""A policy that a proxy compiles itself, and that decides in its process."""

from __future__ import annotations

import math

from callability.client.client import Client
from callability.client.held_policy import HeldPolicy
from callability.client.hooks import GuardedHooks, Hooks, LoggingHooks
from callability.client.local import AsyncioLocal, Decided, LocalDecisions


class GivenPolicy:
    """Decides by the bundle that was given last. Nothing else knows a newer one, so it is never too old.

    Args:
        decided: receives each answer with the policy that gave it.
        hooks: what takes events, figures and spans; by default, events go to a logger.
    """

    def __init__(self, decided: Decided = lambda *_: None, hooks: Hooks | None = None) -> None:
        guarded = GuardedHooks(hooks or LoggingHooks())
        self._held = HeldPolicy(math.inf, guarded)
        self.client = Client(AsyncioLocal(LocalDecisions(self._held, _Nothing(), guarded, decided)))
        """What decides by it."""

    def give(self, bundle: bytes) -> bool:
        """Decide by a bundle from now on, and return whether it was accepted; otherwise nothing changes."""
        return self._held.accept(bundle, rollback=True)


class _Nothing:
    """There is no source to follow."""

    def open(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""
