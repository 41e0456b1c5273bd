"""`callability explain` and `table`: decide given facts and show how, or print all decisions in few rows."""

from __future__ import annotations

import html
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer

from callability.cli.console import fits_terminal, write_table
from callability.cli.options import JsonOption, PolicyArgument, PolicyOrBundleOption, condition_text, leave
from callability.cli.policies import known_question, view_policy
from callability.compiler.bundle_writing import compile_rule_set
from callability.compiler.names import NAME_BYTES
from callability.compiler.nodes import TooManyNodes
from callability.compiler.policy import Policy
from callability.compiler.question import NameFact, Question
from callability.compiler.questions import CALLABILITY, QUESTIONS
from callability.compiler.rule_set import RuleSet, Templates, Verdict, verdict_words
from callability.compiler.sql import KEPT, TABLE, Query, SetTooLarge, SqlDialect, UnfitSqlColumn, as_sql
from callability.compiler.table import Row, as_dot, of_diagram, of_path, of_row, of_trial, of_verdict, rows_of
from callability.contract.finding import did_you_mean
from callability.contract.vocabulary import Retry, Status
from callability.kernel.conditions import SEMANTICS
from callability.kernel.path import Explanation, Path, retry_of, sentences
from callability.kernel.path import explain as explanation_of

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
    named = _columns_of(rows, facts)
    return ("status", "rule", *named, "combinations"), [_cells(row, named) for row in rows]


def _cells(row: Row, facts: Iterable[str]) -> tuple[str, ...]:
    values = (", ".join(row.facts[fact]) if fact in row.facts else ANY for fact in facts)
    return row.status, _rule(row), *values, f"{row.combinations:,}"


def _rule(row: Row) -> str:
    return f"{row.rule} (undetermined)" if row.undetermined else row.rule


def _columns_of(rows: Iterable[Row], facts: Iterable[str]) -> tuple[str, ...]:
    names = {fact for row in rows for fact in row.facts}
    return tuple(fact for fact in facts if fact in names)


def _left_out(rows: Sequence[Row], facts: Sequence[str]) -> list[str]:
    """Return the line that names facts without a column, if there are any."""
    named = _columns_of(rows, facts)
    others = [fact for fact in facts if fact not in named]
    return [f"no row depends on {', '.join(others)}"] if others else []


def _html_row(row: Row, cells: Iterable[str]) -> str:
    kind = ' class="undetermined"' if row.undetermined else ""
    columns = (f'<td class="any">{ANY}</td>' if cell == ANY else f"<td>{html.escape(cell)}</td>" for cell in cells)
    return f"<tr{kind}>{''.join(columns)}</tr>"


class TableStyle(StrEnum):
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
        TableStyle,
        typer.Option(
            "--format",
            help="Output format. `diagram` is the decision diagram as JSON, `dot` its graph for Graphviz,"
            " and `sql` a query that decides each row of a table.",
        ),
    ] = TableStyle.TERMINAL,
    dialect: Annotated[
        SqlDialect | None, typer.Option(help="The dialect of `--format sql`. `bigquery` is not tested on BigQuery.")
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
    known_question(question)
    _check_sql_options(form, question, {"--dialect": dialect, "--from": source, "--keep": keep})
    policy = view_policy(directory)
    proved = policy.rule_sets[question]
    match form:
        case TableStyle.SQL:
            assert dialect is not None
            _print_sql(policy, Query(dialect, source or TABLE, tuple(keep or KEPT)))
            return
        case TableStyle.DIAGRAM:
            typer.echo(json.dumps({"question": question, **of_diagram(proved.diagram)}, indent=2))
            return
        case TableStyle.DOT:
            typer.echo(as_dot(question, proved.diagram))
            return
    try:
        rows = rows_of(proved.rule_set, proved.diagram)
    except TooManyNodes:
        leave("the table is too large; `--format diagram` prints what it is read from", 1)
    facts = proved.diagram.space.facts
    match form:
        case TableStyle.TERMINAL:
            write(rows, facts)
        case TableStyle.MARKDOWN:
            typer.echo(as_markdown(rows, facts))
        case TableStyle.HTML:
            typer.echo(as_html(question, rows, facts))
        case TableStyle.JSON:
            typer.echo(json.dumps({"question": question, "rows": list(map(of_row, rows))}, indent=2))


def _check_sql_options(form: TableStyle, question: str, options: Mapping[str, object]) -> None:
    """Exit with code 2 if the options about SQL do not fit the others."""
    if form is not TableStyle.SQL:
        given = next((name for name, value in options.items() if value), None)
        if given:
            leave(f"{given} needs --format sql", 2)
    elif options["--dialect"] is None:
        leave(f"--format sql needs --dialect ({', '.join(SqlDialect)})", 2)
    elif question != CALLABILITY.name:
        leave(f"--format sql is for the question {CALLABILITY.name}: no table has the facts of {question}", 2)


def _print_sql(policy: Policy, query: Query) -> None:
    """Print a policy as SQL; one that has no such form exits with code 1."""
    proved = policy.rule_sets[CALLABILITY.name]
    try:
        typer.echo(as_sql(proved.rule_set, proved.diagram, policy.revision, query))
    except UnfitSqlColumn as error:
        leave(f"{query.dialect} cannot hold this policy: {error}", 1)
    except (SetTooLarge, TooManyNodes):
        leave("the policy is too large for SQL: its unread facts need more than a query can hold", 1)


def explain(
    facts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FACT=VALUE",
            help="The facts, such as `server.enabled=false`, `tool.name=drop_table` or `approval.status=unknown`. A"
            " fact that is left out has its default.",
        ),
    ] = None,
    question: Annotated[
        str, typer.Option(metavar="QUESTION", help=f"The question that the facts are about: {', '.join(QUESTIONS)}.")
    ] = CALLABILITY.name,
    policy: PolicyOrBundleOption = None,
    agent: Annotated[str | None, typer.Option("--agent", hidden=True)] = None,
    as_json: JsonOption = False,
) -> None:
    """Print the answer for given facts, the rules that were tried, and what would make a tool callable.

    A fact that was given and changes nothing is marked: no rule reads it, or no name or pattern of the rules matches
    it. Exit code 0: answered. 1: the policy is refused. 2: a question, fact or value is not known.
    """
    if agent is not None:
        leave(f"`--agent` is not an option of `explain`: facts are arguments, here `agent.name={agent}`", 2)
    known_question(question)
    answer = _answer(view_policy(policy), question, facts or [])
    typer.echo((_json if as_json else _text)(answer))


@dataclass(frozen=True, slots=True)
class ExplainReport:
    """A verdict with everything that the command prints about it."""

    policy: Policy
    rule_set: RuleSet
    verdict: Verdict
    unread: tuple[str, ...]
    retry: Retry
    explanation: Explanation
    given: Mapping[str, str]
    facts: Mapping[str, str]
    notes: Mapping[str, str]
    """Why facts of the call change nothing, by their names."""

    @property
    def status(self) -> Status:
        """The status with its owner."""
        return self.rule_set.question.status(self.verdict.status)

    @property
    def words(self) -> Templates | None:
        """The words of the verdict, if it has any."""
        said = verdict_words(self.rule_set, self.verdict)
        return said.texts if said else None


def _answer(policy: Policy, question: str, texts: Iterable[str]) -> ExplainReport:
    """Decide the facts of the call, or exit with code 2 if they are not facts of the question."""
    proved = policy.rule_sets[question]
    subject = proved.rule_set.question
    written = _read_facts(texts, subject)
    given = subject.complete(written)
    if contradicted := subject.contradiction(given):
        leave(f"these facts cannot occur together: {contradicted.impossible}", 2)
    verdict = proved.diagram.verdict(given)
    read = {fact: given[fact] for fact in proved.diagram.space.facts}
    rules = compile_rule_set(proved)
    return ExplainReport(
        policy,
        proved.rule_set,
        verdict,
        proved.diagram.unread(verdict, given),
        retry_of(rules, rules.decide(rules.points_of(given)), given),
        explanation_of(rules, given),
        given,
        read,
        dict(_notes(written, subject, read)),
    )


def _read_facts(texts: Iterable[str], question: Question) -> dict[str, str]:
    """Return the facts of the call, or exit with code 2 if one is given twice."""
    given: dict[str, str] = {}
    for text in texts:
        name, value = _read(text, question)
        if name in given:
            leave(f"`{name}` is given twice: each fact has one value", 2)
        given[name] = value
    return given


def _read(text: str, question: Question) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    fact = question.facts.get(name)
    if not equals:
        leave(f"`{text}` is not FACT=VALUE", 2)
    if fact is None:
        leave(_unknown_fact(name, question), 2)
    if isinstance(fact, NameFact):
        if not 0 < len(value.encode(errors="surrogateescape")) <= NAME_BYTES and value != fact.open_value:
            leave(f"`{name}` has 1 to {NAME_BYTES} bytes", 2)
        value = fact.of_name(value) if fact.asserted else value
    elif value not in fact.readings:
        leave(_unknown(f"unknown value `{value}` of `{name}`", value, fact.readings), 2)
    return name, value


def _notes(written: Mapping[str, str], question: Question, read: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the facts of the call that change nothing, each with the reason."""
    # A fact on the axis of one that is read may decide what that one can be.
    matter = {name for axis in question.axes if not set(axis.facts).isdisjoint(read) for name in axis.facts}
    for name, value in written.items():
        fact = question.facts[name]
        if name not in matter:
            yield name, "which no rule reads"
        elif isinstance(fact, NameFact) and fact.is_unmatched(value):
            yield name, "which no name or pattern of the rules matches"


def _unknown_fact(name: str, question: Question) -> str:
    """Return what is wrong with the name of a fact; of a label that is not declared, which labels are."""
    kind, is_label, _ = name.partition(".label.")
    if not is_label or kind not in question.labels:
        return _unknown(f"unknown fact `{name}`", name, question.facts)
    labels = [each for each in question.facts if each.startswith(f"{kind}.label.")]
    if not labels:
        return f"unknown fact `{name}` (the policy declares no labels for {'an' if kind == 'agent' else 'a'} {kind})"
    return _unknown(f"unknown fact `{name}`", name, labels)


def _unknown(sentence: str, found: str, wanted: Iterable[str]) -> str:
    hint = did_you_mean(found, wanted)
    return f"{sentence} ({hint})" if hint else sentence


def _text(answer: ExplainReport) -> str:
    verdict, explanation, status = answer.verdict, answer.explanation, answer.status
    unread = answer.unread
    how = "undetermined at" if verdict.undetermined else "by"
    lines = [f"{status}, {how} rule `{verdict.rule}`"]
    lines.append(f"  lifted by      {status.lifted_by}")
    lines.append(f"  retry          {answer.retry}")
    if unread:
        lines.append(f"  unread         {', '.join(unread)}")
    if verdict.withhold_text is not None:
        lines.append(f"  upstream text  {'withheld' if verdict.withhold_text else 'may be shown'}")
    lines += [f"  {name:<13}  {text}" for name, text in (answer.words or {}).items()]
    lines += ["", "facts", *_fact_lines(answer)]
    lines += ["", "rules tried, in order", *(f"  {trial.rule.id} {trial.why}" for trial in explanation.trials)]
    if explanation.path:
        lines += ["", "path to callable", *(f"  {step}" for step in _steps(explanation.path))]
    lines += ["", f"revision {answer.policy.revision}"]
    return "\n".join(lines)


def _fact_lines(answer: ExplainReport) -> Iterator[str]:
    unread = {fact: answer.given[fact] for fact in answer.notes if fact not in answer.facts}
    for fact, value in {**answer.facts, **unread}.items():
        note = answer.notes.get(fact)
        yield f"  {fact}: {value}, {note}" if note else f"  {fact}: {value}"


def _steps(path: Path) -> list[str]:
    *changes, end = sentences(path)
    return [*(f"{number}. {change}" for number, change in enumerate(changes, 1)), end]


def _json(answer: ExplainReport) -> str:
    path = answer.explanation.path
    return json.dumps(
        {
            "revision": answer.policy.revision,
            "semantics": SEMANTICS,
            "engine": answer.policy.engine,
            "facts": answer.facts,
            "verdict": of_verdict(answer.verdict, answer.unread, answer.retry, answer.rule_set),
            "words": answer.words,
            "trials": list(map(of_trial, answer.explanation.trials)),
            **({"path": of_path(path)} if path else {}),
        },
        indent=2,
    )
