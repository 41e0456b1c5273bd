"""Counts of servers by load status; no server is named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from callability.gateway.loading.loads import Load
from callability.vocabulary import LoadStatus

LOADING = "loading"
"""The word in place of a status for a server whose first load has no result yet."""


def numbers_of(loads: Iterable[Load]) -> Mapping[str, int]:
    """Return the number of loads by status. A server whose connection was lost has no status until it loads again."""
    return Counter(status for status in map(_status, loads) if status)


def in_words(numbers: Mapping[str, int]) -> str:
    """Return the numbers of servers by status as text, with the number of those still loading."""
    known = [f"{numbers[status]} {status}" for status in LoadStatus if numbers.get(status)]
    to_go = numbers.get(LOADING, 0)
    total = sum(numbers.values())
    beginning = f"{'loading' if to_go else 'loaded'} {total} server{'' if total == 1 else 's'}: "
    return beginning + ", ".join([*known, *([f"{to_go} to go"] if to_go else [])])


def _status(load: Load) -> str | None:
    outcome = load.outcome
    if outcome is None:
        return LOADING if load.is_pending else None
    return str(outcome.status)
