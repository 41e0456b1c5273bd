"""Chooses the most careful of several load statuses, which is the one that counts (L-1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from callability.vocabulary import LoadStatus

_CAREFUL = (LoadStatus.DENIED, LoadStatus.PERMANENT, LoadStatus.TRANSIENT, LoadStatus.AVAILABLE)
_Classified = TypeVar("_Classified")


def most_careful(every: Iterable[_Classified], status_of: Callable[[_Classified], LoadStatus]) -> _Classified:
    """Return the item with the most careful status, the first of several."""
    return min(every, key=lambda each: _CAREFUL.index(status_of(each)))
