"""Writing to a terminal: text of upstream servers with control characters escaped, and tables."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

import typer

from callability.finding import Finding, Severity, count_of

# What is printable by its category and yet is not seen: it could carry a text past the eyes of who reads.
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)


def escaped(text: str) -> str:
    r"""Return a text in one line in which everything is seen; what cannot be is written as `\u202e`."""
    return "".join(map(_seen, text))


def _seen(character: str) -> str:
    if character.isprintable() and not _UNSEEN.match(character):
        return character
    return f"\\u{ord(character):04x}" if ord(character) <= 0xFFFF else f"\\U{ord(character):08x}"


def write_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Write rows to standard output: as a table on a terminal, as wide as it is, otherwise in plain columns."""
    if sys.stdout.isatty():
        # Where nobody looks at it, it need not be imported.
        from rich.console import Console  # noqa: PLC0415
        from rich.table import Table  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        table = Table()
        for column in columns:
            table.add_column(column, overflow="fold")
        for row in rows:
            table.add_row(*map(Text, row))
        Console().print(table)
        return
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    for row in (columns, *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        typer.echo("  ".join(cells).rstrip())


def fits_terminal(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Say whether a table needs no word to be broken on the terminal; always, if standard output is none."""
    if not sys.stdout.isatty():
        return True
    from rich.console import Console  # noqa: PLC0415

    words = (max(len(word) for cell in column for word in cell.split()) for column in zip(columns, *rows, strict=True))
    # A border and two spaces are beside each column.
    return sum(words) + 3 * len(columns) + 1 <= Console().width


def outcome_line(path: Path, findings: Sequence[Finding], *, accepted: bool) -> str:
    """Return whether what is at a path was accepted, and how many findings of each severity but notes there are."""
    counts = (number_of(count_of(each, findings), each) for each in (Severity.ERROR, Severity.WARNING))
    return f"{escaped(str(path))}: {'accepted' if accepted else 'refused'}, {', '.join(counts)}"


def number_of(count: int, noun: str) -> str:
    """Return a number with its noun."""
    if count == 1:
        return f"{count} {noun}"
    return f"{count:,} {noun}{'es' if noun.endswith('s') else 's'}"
