"""How many servers have which status of a load; no server is named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from callability.gateway.loading.loads import Load
from callability.vocabulary import LoadStatus

LOADING = "loading"
"""What stands in place of a status for a server of whose first load nothing is known yet."""


def numbers_of(loads: Iterable[Load]) -> Mapping[str, int]:
    """Return how many there are of each status; a server whose connection was lost has none until it loads again."""
    return Counter(status for status in map(_status, loads) if status)


def in_words(numbers: Mapping[str, int]) -> str:
    """Say how many servers have which status, and how many are to go."""
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
