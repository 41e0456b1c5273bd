"""Tables on a terminal, by rich, which the base installation does not have."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer


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
