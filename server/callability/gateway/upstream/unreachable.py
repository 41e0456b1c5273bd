"""A target that is not reached: what is wrong with it is known before it is tried."""

from __future__ import annotations

from dataclasses import dataclass

from callability.gateway.upstream.failure import Failure


@dataclass(frozen=True, slots=True)
class Unreachable:
    """A server whose entry does not lead anywhere; every opening ends with the failure."""

    failure: Failure
