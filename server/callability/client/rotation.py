"""Which replica is asked next: round-robin over those that serve, the others after them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain, repeat
from threading import Lock

PATIENCE_SECONDS = 5.0
"""How long after a replica was lost a second attempt waits for a connection to it: it may be starting again."""

REFUSED_PAUSES = (0.1, 0.2, 0.4, 0.8)
"""Seconds before each further attempt at the only address, if it refuses calls; the last one repeats."""


class ReplicaState(StrEnum):
    """What is known of a replica."""

    UNKNOWN = "unknown"
    """Its health has not been read: it is asked like one that serves."""
    SERVING = "serving"
    """It says that it serves."""
    DOWN = "down"
    """It cannot be reached, or says that it does not serve."""
    SUSPECT = "suspect"
    """It did not answer in time, and has not said since that it serves."""


_USABLE = frozenset({ReplicaState.UNKNOWN, ReplicaState.SERVING})


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt of a call: the replica to ask, whether to wait until it is connected, and the seconds to pause first.

    One with a pause is only for a call that was refused.
    """

    replica: int
    patient: bool
    pause: float = 0.0


class Rotation:
    """The states of replicas, by their number, and whose turn it is. It may be used from several threads."""

    def __init__(self, replicas: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._turn = 0
        self._states = [ReplicaState.UNKNOWN] * replicas
        self._lost_at = [clock()] * replicas

    @property
    def states(self) -> tuple[ReplicaState, ...]:
        """The state of each replica."""
        with self._lock:
            return tuple(self._states)

    def attempts(self) -> Iterator[Attempt]:
        """Return the two attempts of a call. They go to different replicas, if there are two.

        The only replica may be a load balancer, which passes on the refusals of a replica that stops. So there are
        further attempts at it without an end, unless it has been away for longer.
        """
        with self._lock:
            self._turn = (self._turn + 1) % len(self._states)
            turns = [(self._turn + step) % len(self._states) for step in range(len(self._states))]
            order = sorted(turns, key=lambda replica: self._states[replica] not in _USABLE)
            first, second = order[0], order[1 % len(order)]
            waits = self._clock() - self._lost_at[second] < PATIENCE_SECONDS
            patient = waits or self._states[second] in _USABLE
            pauses = chain(REFUSED_PAUSES, repeat(REFUSED_PAUSES[-1])) if first == second and patient else ()
            both = (Attempt(first, patient=False), Attempt(second, patient=patient))
            return chain(both, (Attempt(second, patient=True, pause=pause) for pause in pauses))

    def saw(self, replica: int, state: ReplicaState) -> bool:
        """Note the state of a replica, and return whether it is another than before."""
        with self._lock:
            before = self._states[replica]
            if before in _USABLE and state not in _USABLE:
                self._lost_at[replica] = self._clock()
            self._states[replica] = state
            return before is not state
