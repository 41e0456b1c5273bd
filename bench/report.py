"""The rows of a report, and how they are written: a table for people, JSON for programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from rich.table import Table

from bench.rounds import Spread, ratios, spread


class Aimed(StrEnum):
    """What an aim is about."""

    RATIO = "ratio"
    VALUE = "value"


@dataclass(frozen=True, slots=True)
class Aim:
    """A number that the median of a row should not exceed, or, `at_least`, not fall below."""

    limit: float
    of: Aimed = Aimed.RATIO
    at_least: bool = False

    def met(self, median: float) -> bool:
        """Whether a median is as it should be."""
        return median >= self.limit if self.at_least else median <= self.limit

    def __str__(self) -> str:
        limit = f"{self.limit:.2f}x" if self.of is Aimed.RATIO else number(self.limit)
        return f"{'≥' if self.at_least else '≤'} {limit}"


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured, a value a round, and what it is compared with, the same rounds of another row."""

    part: str
    what: str
    unit: str
    values: tuple[float, ...]
    against: tuple[float, ...] | None = None
    aim: Aim | None = None

    @property
    def spread(self) -> Spread:
        """The values' spread."""
        return spread(self.values)

    @property
    def ratio(self) -> Spread | None:
        """The spread of the ratios, round by round."""
        return spread(ratios(self.values, self.against)) if self.against else None

    @property
    def met(self) -> bool | None:
        """Whether the aim is met; None where there is none."""
        if self.aim is None:
            return None
        aimed = self.ratio if self.aim.of is Aimed.RATIO else self.spread
        return aimed is not None and self.aim.met(aimed.median)


def table(rows: Sequence[Row], title: str) -> Table:
    """Return the rows as a table, the parts ruled off."""
    drawn = Table(title=title, title_justify="left")
    drawn.add_column("what", overflow="fold")
    for name in ("median", "quartiles"):
        drawn.add_column(name, justify="right", no_wrap=True)
    drawn.add_column("unit", no_wrap=True)
    for name in ("ratio", "quartiles", "aim"):
        drawn.add_column(name, justify="right", no_wrap=True)
    drawn.add_column("", no_wrap=True)
    for place, row in enumerate(rows):
        last = place + 1 == len(rows) or rows[place + 1].part != row.part
        drawn.add_row(*_cells(row), end_section=last)
    return drawn


def as_json(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Return the rows with every value of every round."""
    return [
        {
            "part": row.part,
            "what": row.what,
            "unit": row.unit,
            "median": row.spread.median,
            "quartiles": [row.spread.lower, row.spread.upper],
            "values": row.values,
            "ratio": row.ratio and {"median": row.ratio.median, "quartiles": [row.ratio.lower, row.ratio.upper]},
            "aim": row.aim and {"of": row.aim.of, "limit": row.aim.limit, "at_least": row.aim.at_least},
            "met": row.met,
        }
        for row in rows
    ]


def _cells(row: Row) -> tuple[str, ...]:
    found, ratio = row.spread, row.ratio
    return (
        row.what,
        number(found.median),
        f"{number(found.lower)} - {number(found.upper)}",
        row.unit,
        f"{ratio.median:.2f}x" if ratio else "",
        f"{ratio.lower:.2f} - {ratio.upper:.2f}" if ratio else "",
        str(row.aim or ""),
        {True: "[green]met[/]", False: "[red]missed[/]", None: ""}[row.met],
    )


def number(value: float) -> str:
    """Write a number with three figures at least."""
    digits = next((digits for digits, limit in ((0, 100), (1, 10)) if value >= limit), 2)
    return f"{value:,.{digits}f}"
