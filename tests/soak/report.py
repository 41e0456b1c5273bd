"""What a soak found: counts and latencies of each series, memory, and what is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import quantiles

from rich.table import Table

from soak.faults import Fault
from soak.memory import Growth
from soak.work import Outcome, Sample, Series

GROWTH_MIB = 5.0
"""By how much the memory of a process that lived throughout may grow."""
_RECOVERY_SECONDS = 1.0
"""How long after a fault a call still counts as one in it."""


@dataclass(frozen=True, slots=True)
class Found:
    """The calls of a series on one route, and those of them that overlap a fault."""

    route: str
    series: Series
    calls: Sequence[Sample]
    in_faults: Sequence[Sample]

    @property
    def outcomes(self) -> Counter[Outcome]:
        """How often each outcome occurred."""
        return Counter(sample.outcome for sample in self.calls)

    @property
    def problems(self) -> Iterator[str]:
        """Sentences about what must not be."""
        outcomes = self.outcomes
        where = f"{self.route}, {self.series}"
        if not outcomes[Outcome.CORRECT]:
            yield f"{where}: no call was answered correctly"
        if outcomes[Outcome.WRONG]:
            yield f"{where}: {outcomes[Outcome.WRONG]:,} answers were wrong"
        if outcomes[Outcome.LOST] and self.series is not Series.RAW:
            yield f"{where}: {outcomes[Outcome.LOST]:,} calls were lost after retries"


def found(route: str, series: Series, calls: Sequence[Sample], faults: Sequence[Fault]) -> Found:
    """Return the calls of a series with those that overlap a fault, or the second after one."""
    spans = [(fault.began, fault.ended + _RECOVERY_SECONDS) for fault in faults]
    in_faults = [
        call for call in calls if any(call.began < end and call.began + call.seconds > begin for begin, end in spans)
    ]
    return Found(route, series, calls, in_faults)


def grown(growths: Sequence[Growth]) -> Iterator[str]:
    """Yield sentences about processes that lived throughout and grew too much."""
    for each in growths:
        if each.throughout and each.grown > GROWTH_MIB:
            yield f"{each.name} grew by {each.grown:.1f} MiB in {each.seconds:.0f} s, and may by {GROWTH_MIB:.0f}"


def calls_table(series: Sequence[Found]) -> Table:
    """Return the counts and latencies as a table."""
    table = Table(title="Calls; latencies in ms, p50 / p99", title_justify="left")
    for name in ("route", "series"):
        table.add_column(name, overflow="fold")
    for name in ("calls", "wrong", "lost", "outside faults", "in faults"):
        table.add_column(name, justify="right", no_wrap=True)
    for each in series:
        outcomes = each.outcomes
        inside = {id(sample) for sample in each.in_faults}
        table.add_row(
            each.route,
            each.series,
            f"{len(each.calls):,}",
            f"{outcomes[Outcome.WRONG]:,}",
            f"{outcomes[Outcome.LOST]:,}",
            _latencies([sample for sample in each.calls if id(sample) not in inside]),
            _latencies(each.in_faults),
        )
    return table


def memory_table(growths: Sequence[Growth]) -> Table:
    """Return the memory of processes as a table."""
    table = Table(title="Resident memory in MiB, from when a process has warmed up", title_justify="left")
    table.add_column("process", overflow="fold")
    for name in ("lived, s", "from", "to", "growth", "throughout"):
        table.add_column(name, justify="right", no_wrap=True)
    for each in growths:
        figures = (f"{each.before:.1f}", f"{each.after:.1f}", f"{each.grown:+.1f}", "yes" if each.throughout else "")
        table.add_row(each.name, f"{each.seconds:.0f}", *figures)
    return table


def _latencies(calls: Sequence[Sample]) -> str:
    if len(calls) < 2:
        return ""
    percentiles = quantiles((1e3 * call.seconds for call in calls), n=100, method="inclusive")
    return f"{percentiles[49]:.1f} / {percentiles[98]:.1f}"
