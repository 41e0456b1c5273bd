"""`callability table`: print the decision table of a policy, in few rows that read like its rules."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

import typer

from callability.command_line.compiled_policy import viewed
from callability.command_line.options import PolicyArgument, leave
from callability.command_line.table_report import as_html, as_markdown, write
from callability.finding import did_you_mean, shown
from callability.policy.deciding.nodes import TooManyNodes
from callability.policy.loading import Policy
from callability.policy.questions.callability import CALLABILITY
from callability.policy.questions.questions import QUESTIONS
from callability.policy.reporting.graph import as_dot, of_diagram
from callability.policy.reporting.plain_data import of_row
from callability.policy.reporting.rows import rows_of
from callability.policy.reporting.sql import KEPT, TABLE, Query, as_sql
from callability.policy.reporting.sql_dialect import Dialect, UnfitColumn
from callability.policy.reporting.sql_facts import SetTooLarge


class TableFormat(StrEnum):
    """How the table is written, or the decision diagram that it is read from."""

    TERMINAL = "terminal"
    MARKDOWN = "markdown"
    HTML = "html"
    JSON = "json"
    DIAGRAM = "diagram"
    DOT = "dot"
    SQL = "sql"


def table(
    directory: PolicyArgument = None,
    question: Annotated[
        str, typer.Option(metavar="QUESTION", help=f"Which question: {', '.join(QUESTIONS)}.")
    ] = CALLABILITY.name,
    form: Annotated[
        TableFormat,
        typer.Option(
            "--format",
            help="Output format. `diagram` is the decision diagram as JSON, `dot` its graph for Graphviz,"
            " and `sql` a query that decides each row of a table.",
        ),
    ] = TableFormat.TERMINAL,
    dialect: Annotated[
        Dialect | None, typer.Option(help="The dialect of `--format sql`. `bigquery` is not tested on BigQuery.")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="TABLE",
            help=f"The table that `--format sql` reads, as a query names it. Default: {TABLE}.",
        ),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help=f"A column that `--format sql` passes on; may be repeated. Default: {' and '.join(KEPT)}.",
        ),
    ] = None,
) -> None:
    """Print the decision table of a policy: the first row that matches is the answer.

    The table covers every combination of facts. `-` stands for any value; facts that no row names have no column.
    `combinations` is the number of combinations that the row decides, so all rows add up to the whole. A row is
    `undetermined` if its rule depends on an unknown fact. Exit code 0: printed. 1: the policy is refused, or its
    table is too large. 2: a question is not known, or an option is wrong.
    """
    if question not in QUESTIONS:
        leave(f"unknown question {shown(question)} ({did_you_mean(question, QUESTIONS)})", 2)
    _check_sql_options(form, question, {"--dialect": dialect, "--from": source, "--keep": keep})
    policy = viewed(directory)
    proved = policy.rule_sets[question]
    match form:
        case TableFormat.SQL:
            assert dialect is not None
            _print_sql(policy, Query(dialect, source or TABLE, tuple(keep or KEPT)))
            return
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


def _check_sql_options(form: TableFormat, question: str, options: Mapping[str, object]) -> None:
    """Exit with code 2 if the options about SQL do not fit the others."""
    if form is not TableFormat.SQL:
        given = next((name for name, value in options.items() if value), None)
        if given:
            leave(f"{given} needs --format sql", 2)
    elif options["--dialect"] is None:
        leave(f"--format sql needs --dialect ({', '.join(Dialect)})", 2)
    elif question != CALLABILITY.name:
        leave(f"--format sql is for the question {CALLABILITY.name}: no table has the facts of {question}", 2)


def _print_sql(policy: Policy, query: Query) -> None:
    """Print a policy as SQL; one that has no such form exits with code 1."""
    proved = policy.rule_sets[CALLABILITY.name]
    try:
        typer.echo(as_sql(proved.rule_set, proved.diagram, policy.revision, query))
    except UnfitColumn as error:
        leave(f"{query.dialect} cannot hold this policy: {error}", 1)
    except (SetTooLarge, TooManyNodes):
        leave("the policy is too large for SQL: its unread facts need more than a query can hold", 1)
