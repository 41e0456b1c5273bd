"""The decision table as text, as Markdown and as a page."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

import typer

from callability.command_line.conditions import condition_text
from callability.command_line.terminal import fits_terminal, write_table
from callability.policy.reporting.rows import Row

ANY = "-"
"""What stands for a fact that may have any value."""
_STYLE = (
    ":root{color-scheme:light dark;font-family:system-ui,sans-serif}table{border-collapse:collapse}"
    "td,th{border:1px solid;padding:.3em .6em;text-align:left}td.any{opacity:.4}tr.undetermined{font-style:italic}"
)


def write(rows: Sequence[Row], facts: Sequence[str]) -> None:
    """Write a table to standard output; on a terminal that is too narrow for its columns, with one for all facts."""
    columns, cells = _columns(rows, facts)
    if not fits_terminal(columns, cells):
        columns = ("status", "rule", "where", "combinations")
        cells = [(row.status, _rule(row), condition_text(row.facts), f"{row.combinations:,}") for row in rows]
    write_table(columns, cells)
    for line in _left_out(rows, facts):
        typer.echo(line)


def as_markdown(rows: Sequence[Row], facts: Sequence[str]) -> str:
    """Return a table as Markdown."""
    columns, cells = _columns(rows, facts)
    lines = [f"| {' | '.join(each)} |" for each in (columns, ["---"] * len(columns), *cells)]
    return "\n".join((*lines, *(f"\n{line}" for line in _left_out(rows, facts))))


def as_html(title: str, rows: Sequence[Row], facts: Sequence[str]) -> str:
    """Return a table as a page."""
    columns, cells = _columns(rows, facts)
    head = "".join(f"<th scope=col>{html.escape(column)}</th>" for column in columns)
    body = "\n".join(_html_row(row, each) for row, each in zip(rows, cells, strict=True))
    below = "".join(f"\n<p>{html.escape(line)}</p>" for line in _left_out(rows, facts))
    name = html.escape(title)
    return (
        f"<!doctype html>\n<html lang=en><meta charset=utf-8><title>{name}</title><style>{_STYLE}</style>\n"
        f"<table><caption>{name}: the first row that matches is the answer</caption>\n<thead><tr>{head}</tr></thead>\n"
        f"<tbody>\n{body}\n</tbody></table>{below}</html>"
    )


def _columns(rows: Sequence[Row], facts: Sequence[str]) -> tuple[Sequence[str], list[tuple[str, ...]]]:
    """Return the columns of a table, of facts those that some row names, and the cells of its rows."""
    named = _named(rows, facts)
    return ("status", "rule", *named, "combinations"), [_cells(row, named) for row in rows]


def _cells(row: Row, facts: Iterable[str]) -> tuple[str, ...]:
    values = (", ".join(row.facts[fact]) if fact in row.facts else ANY for fact in facts)
    return row.status, _rule(row), *values, f"{row.combinations:,}"


def _rule(row: Row) -> str:
    return f"{row.rule} (undetermined)" if row.undetermined else row.rule


def _named(rows: Iterable[Row], facts: Iterable[str]) -> tuple[str, ...]:
    names = {fact for row in rows for fact in row.facts}
    return tuple(fact for fact in facts if fact in names)


def _left_out(rows: Sequence[Row], facts: Sequence[str]) -> list[str]:
    """Return the line that names facts without a column, if there are any."""
    named = _named(rows, facts)
    others = [fact for fact in facts if fact not in named]
    return [f"no row depends on {', '.join(others)}"] if others else []


def _html_row(row: Row, cells: Iterable[str]) -> str:
    kind = ' class="undetermined"' if row.undetermined else ""
    columns = (f'<td class="any">{ANY}</td>' if cell == ANY else f"<td>{html.escape(cell)}</td>" for cell in cells)
    return f"<tr{kind}>{''.join(columns)}</tr>"
