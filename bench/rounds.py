"""Interleaved rounds: every subject once a round, in the same order, so that what disturbs one disturbs all."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

Figures = Mapping[str, float]
"""What one measurement came to, by name."""
Series = Mapping[str, tuple[float, ...]]
"""A value a round, by the name of the figure."""

_SHRINK = 50
"""What the repetitions of a full round are divided by in a quick one."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of some values, between their quartiles."""

    median: float
    lower: float
    upper: float


def spread(values: Sequence[float]) -> Spread:
    """Return the spread of at least one value."""
    if len(values) == 1:
        return Spread(*values, *values, *values)
    lower, median, upper = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(median, lower, upper)


def ratios(values: Iterable[float], others: Iterable[float]) -> tuple[float, ...]:
    """Return what values are of others, round by round."""
    return tuple(value / other for value, other in zip(values, others, strict=True))


@dataclass(frozen=True, slots=True)
class Rounds:
    """The number of rounds, and a callback for progress.

    With `quick`, every subject runs on a small scale and without warming up: it shows that the measurement works, and
    its figures mean nothing.
    """

    count: int
    report_progress: Callable[[str], None]
    quick: bool = False

    def repetitions(self, usual: int) -> int:
        """Return how often to repeat something that is repeated so often in a full round; at least twice."""
        return max(2, usual // _SHRINK) if self.quick else usual

    def interleaved(self, what: str, subjects: Mapping[str, Callable[[], Figures]]) -> Mapping[str, Series]:
        """Measure each subject once for warming up, which does not count, and then once a round."""
        if not self.quick:
            self.report_progress(f"{what}: warming up")
            for measure in subjects.values():
                measure()
        measured: dict[str, list[Figures]] = {name: [] for name in subjects}
        for number in range(self.count):
            self.report_progress(f"{what}: round {number + 1} of {self.count}")
            for name, measure in subjects.items():
                measured[name].append(measure())
        return {
            name: {figure: tuple(figures[figure] for figures in found) for figure in found[0]}
            for name, found in measured.items()
        }
