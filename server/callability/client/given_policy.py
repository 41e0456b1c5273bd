"""A policy that a proxy compiles itself, and that decides in its process."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable

from callability.client.client import Client
from callability.client.held_policy import HeldPolicy
from callability.client.hooks import GuardedHooks, LoggingHooks
from callability.client.local import AsyncioLocal, LocalDecisions
from callability.kernel.calls import UNOBSERVED
from callability.kernel.encoded_results import Observer
from callability.kernel.policy import LocalPolicy


class GivenPolicy:
    """Decides by the bundle that was given last. Nothing else knows a newer one, so it is never too old.

    Only what is wrong is logged: which policy decides is known to the program that gives it.

    Args:
        observed: returns what counts the decisions by a policy with a revision.
    """

    def __init__(self, observed: Callable[[str], Observer] = lambda _: UNOBSERVED) -> None:
        hooks = GuardedHooks(LoggingHooks(), logging.WARNING)
        self._held = HeldPolicy(math.inf, hooks, observed=observed)
        self.client = Client(AsyncioLocal(LocalDecisions(self._held, None, hooks)))
        """What decides by it."""

    def give(self, bundle: bytes) -> LocalPolicy | None:
        """Decide by a bundle from now on, and return its policy; None if it is refused: then nothing changes."""
        return self._held.policy if self._held.accept(bundle, rollback=True) else None
