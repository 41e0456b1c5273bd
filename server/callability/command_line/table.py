"""`callability table`: print the decision table of a policy, in few rows that read like its rules."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from callability.command_line.options import leave, loaded
from callability.command_line.terminal import write_table
from callability.finding import did_you_mean, shown
from callability.policy.questions.callability import CALLABILITY
from callability.policy.questions.questions import QUESTIONS
from callability.policy.reporting.plain_data import of_row
from callability.policy.reporting.rows import Row, rows_of

ANY = "-"
"""What stands for a fact that may have any value."""
_STYLE = (
    ":root{color-scheme:light dark;font-family:system-ui,sans-serif}table{border-collapse:collapse}"
    "td,th{border:1px solid;padding:.3em .6em;text-align:left}td.any{opacity:.4}tr.undetermined{font-style:italic}"
)


class TableFormat(StrEnum):
    """How the table is written."""

    TERMINAL = "terminal"
    MARKDOWN = "markdown"
    HTML = "html"
    JSON = "json"


def table(
    directory: Annotated[
        Path | None, typer.Argument(metavar="[DIR]", help="The directory of the policy. Default: the shipped one.")
    ] = None,
    question: Annotated[
        str, typer.Option(metavar="QUESTION", help=f"Which question: {', '.join(QUESTIONS)}.")
    ] = CALLABILITY.name,
    form: Annotated[TableFormat, typer.Option("--format", help="Output format.")] = TableFormat.TERMINAL,
) -> None:
    """Print the decision table of a policy: the first row that matches is the answer.

    The table covers every combination of facts. `-` stands for any value. `combinations` is the number of combinations
    that the rule decides in all its rows. A row is `undetermined` if its rule depends on an unknown fact. Exit code 0:
    printed. 1: the policy is refused. 2: a question is not known.
    """
    if question not in QUESTIONS:
        leave(f"unknown question {shown(question)} ({did_you_mean(question, QUESTIONS)})", 2)
    proved = loaded(directory, engine=None).rule_sets[question]
    rows = rows_of(proved.rule_set, proved.diagram)
    facts = proved.diagram.space.facts
    if form is TableFormat.JSON:
        typer.echo(json.dumps({"question": question, "rows": list(map(of_row, rows))}, indent=2))
        return
    columns = (*facts, "status", "rule", "combinations")
    cells = [_cells(row, facts) for row in rows]
    match form:
        case TableFormat.TERMINAL:
            write_table(columns, cells)
        case TableFormat.MARKDOWN:
            typer.echo("\n".join(_markdown(columns, cells)))
        case TableFormat.HTML:
            typer.echo(_html(question, columns, zip(rows, cells, strict=True)))


def _cells(row: Row, facts: Sequence[str]) -> tuple[str, ...]:
    values = (", ".join(row.facts[fact]) if fact in row.facts else ANY for fact in facts)
    rule = f"{row.rule} (undetermined)" if row.undetermined else row.rule
    return (*values, row.status, rule, f"{row.combinations:,}")


def _markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterable[str]:
    for cells in (columns, ["---"] * len(columns), *rows):
        yield f"| {' | '.join(cells)} |"


def _html(title: str, columns: Sequence[str], rows: Iterable[tuple[Row, Sequence[str]]]) -> str:
    head = "".join(f"<th scope=col>{html.escape(column)}</th>" for column in columns)
    body = "\n".join(_html_row(row, cells) for row, cells in rows)
    name = html.escape(title)
    return (
        f"<!doctype html>\n<html lang=en><meta charset=utf-8><title>{name}</title><style>{_STYLE}</style>\n"
        f"<table><caption>{name}: the first row that matches is the answer</caption>\n<thead><tr>{head}</tr></thead>\n"
        f"<tbody>\n{body}\n</tbody></table></html>"
    )


def _html_row(row: Row, cells: Sequence[str]) -> str:
    kind = ' class="undetermined"' if row.undetermined else ""
    columns = (f'<td class="any">{ANY}</td>' if cell == ANY else f"<td>{html.escape(cell)}</td>" for cell in cells)
    return f"<tr{kind}>{''.join(columns)}</tr>"
