"""`callability table`: print the decision table of a policy, in few rows that read like its rules."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from callability.command_line.options import leave, loaded
from callability.command_line.table_report import as_html, as_markdown, write
from callability.finding import did_you_mean, shown
from callability.policy.deciding.nodes import TooManyNodes
from callability.policy.questions.callability import CALLABILITY
from callability.policy.questions.questions import QUESTIONS
from callability.policy.reporting.graph import as_dot, of_diagram
from callability.policy.reporting.plain_data import of_row
from callability.policy.reporting.rows import rows_of


class TableFormat(StrEnum):
    """How the table is written, or the decision diagram that it is read from."""

    TERMINAL = "terminal"
    MARKDOWN = "markdown"
    HTML = "html"
    JSON = "json"
    DIAGRAM = "diagram"
    DOT = "dot"


def table(
    directory: Annotated[
        Path | None, typer.Argument(metavar="[DIR]", help="The directory of the policy. Default: the shipped one.")
    ] = None,
    question: Annotated[
        str, typer.Option(metavar="QUESTION", help=f"Which question: {', '.join(QUESTIONS)}.")
    ] = CALLABILITY.name,
    form: Annotated[
        TableFormat,
        typer.Option(
            "--format",
            help="Output format. `diagram` is the decision diagram as JSON, and `dot` is its graph for Graphviz.",
        ),
    ] = TableFormat.TERMINAL,
) -> None:
    """Print the decision table of a policy: the first row that matches is the answer.

    The table covers every combination of facts. `-` stands for any value; facts that no row names have no column.
    `combinations` is the number of combinations that the row decides, so all rows add up to the whole. A row is
    `undetermined` if its rule depends on an unknown fact. Exit code 0: printed. 1: the policy is refused, or its
    table is too large. 2: a question is not known.
    """
    if question not in QUESTIONS:
        leave(f"unknown question {shown(question)} ({did_you_mean(question, QUESTIONS)})", 2)
    proved = loaded(directory, engine=None).rule_sets[question]
    match form:
        case TableFormat.DIAGRAM:
            typer.echo(json.dumps({"question": question, **of_diagram(proved.diagram)}, indent=2))
            return
        case TableFormat.DOT:
            typer.echo(as_dot(question, proved.diagram))
            return
    try:
        rows = rows_of(proved.rule_set, proved.diagram)
    except TooManyNodes:
        leave("the table is too large; `--format diagram` prints what it is read from", 1)
    facts = proved.diagram.space.facts
    match form:
        case TableFormat.TERMINAL:
            write(rows, facts)
        case TableFormat.MARKDOWN:
            typer.echo(as_markdown(rows, facts))
        case TableFormat.HTML:
            typer.echo(as_html(question, rows, facts))
        case TableFormat.JSON:
            typer.echo(json.dumps({"question": question, "rows": list(map(of_row, rows))}, indent=2))
