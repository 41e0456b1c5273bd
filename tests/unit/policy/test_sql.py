"""The SQL that a policy is printed as decides as the policy does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product

import duckdb
import pytest
import sqlglot
from hypothesis import given

from callability.compiler.diagram import DecisionDiagram
from callability.compiler.question import LabelFact
from callability.compiler.questions import CALLABILITY
from callability.compiler.rule_file import read_rule_set
from callability.compiler.rule_set import RuleSet
from callability.compiler.sql import SPELLINGS, Query, SqlDialect, SqlFacts, UnfitSqlColumn, as_sql
from callability.files import document
from support.drawing import drawing
from support.drawn_policies import any_rule_sets, diagram_of, rule_sets
from support.sql_rows import ODD_NAMES, ODD_POLICY, answer_of, columns_of, drawn_states, row_of

DUCKDB = SPELLINGS[SqlDialect.DUCKDB]


def _rule_set(text: str) -> RuleSet:
    found, findings = read_rule_set(document.parse(text.encode(), "callability.yaml"), CALLABILITY)
    assert found, findings
    return found


def _answers(rule_set: RuleSet, rows: Iterable[Mapping[str, object]]) -> list[tuple[object, ...]]:
    """Return DuckDB's answers for rows of a table, each given by its columns."""
    diagram = diagram_of(rule_set)
    columns = columns_of(SqlFacts(diagram.space, DUCKDB))
    with duckdb.connect() as connection:
        types = ", ".join(f"{DUCKDB.column(name)} {kind}" for name, kind in columns.items())
        connection.execute(f"CREATE TABLE inventory (number INTEGER, {types})")
        marks = ", ".join("?" * (len(columns) + 1))
        values = [(number, *(row.get(name) for name in columns)) for number, row in enumerate(rows)]
        connection.executemany(f"INSERT INTO inventory VALUES ({marks})", values)
        query = as_sql(rule_set, diagram, "drawn", Query(SqlDialect.DUCKDB, kept=("number",)))
        return [row[1:] for row in connection.execute(f"SELECT * FROM ({query}) ORDER BY number").fetchall()]


def _differences(rule_set: RuleSet, diagram: DecisionDiagram, states: list[dict[str, str]]) -> list[object]:
    """Return for which combinations of facts DuckDB gives another answer than the diagram."""
    columns = columns_of(SqlFacts(diagram.space, DUCKDB))
    rows = (dict(zip(columns, row_of(state, columns, diagram.space.question.facts), strict=True)) for state in states)
    wanted = [answer_of(diagram, state) for state in states]
    found = _answers(rule_set, rows)
    return [each for each in zip(states, found, wanted, strict=True) if each[1] != each[2]]


@drawing(30)
@given(rule_sets())
def test_duckdb_decides_as_drawn_rules_do(drawn: RuleSet) -> None:
    """Whatever the rules about approvals and servers are."""
    diagram = diagram_of(drawn)
    assert _differences(drawn, diagram, drawn_states(diagram, 400)) == []


@drawing(30)
@given(any_rule_sets())
def test_duckdb_decides_as_drawn_rules_about_names_labels_and_annotations_do(drawn: RuleSet) -> None:
    """Whatever the patterns are."""
    diagram = diagram_of(drawn)
    assert _differences(drawn, diagram, drawn_states(diagram, 400)) == []


def test_names_and_labels_may_hold_what_is_special_in_sql() -> None:
    """Quotes, escapes, line breaks and the wildcards of LIKE are characters like any other."""
    rule_set = _rule_set(ODD_POLICY)
    diagram = diagram_of(rule_set)
    label = next(fact for fact in rule_set.question.facts.values() if isinstance(fact, LabelFact))
    states = [
        CALLABILITY.complete({"server.name": server, "tool.name": tool, label.name: value})
        for server, tool, value in product(ODD_NAMES, ODD_NAMES, label.readings)
    ]
    assert len({answer_of(diagram, state)[1] for state in states}) == len(rule_set.rules)
    assert _differences(rule_set, diagram, states) == []


_RECORD = """
rules:
  - {id: user-off, when: {approval.disabled: true}, status: disabled_by_user}
  - {id: pending, when: {approval.status: [pending, changed]}, status: pending_approval}
  - {id: destructive, when: {annotations.destructive: true}, status: disabled_by_config, action: "{edit_policy}."}
  - {id: open, status: callable}
words:
  disabled_by_user: {remediation: "{enable_tool}.", rejection: "{enable_tool}."}
  pending_approval: {remediation: "{approve_tool}.", rejection: "{approve_tool}."}
  disabled_by_config: {remediation: "{edit_policy}.", rejection: "{edit_policy}."}
  disabled_unknown: {remediation: "{check_logs}.", rejection: "{check_logs}."}
"""
_APPROVED = {"server.quarantined": False, "approval.disabled": False, "approval.status": "approved"}


@pytest.mark.parametrize(
    ("row", "rule", "unread"),
    [
        ({"annotations.read_only": True, "annotations.destructive": True}, "open", ""),
        ({"annotations.read_only": True}, "open", ""),
        ({"annotations.read_only": False, "annotations.destructive": True}, "destructive", ""),
        ({"annotations.destructive": False}, "destructive", "annotations.destructive"),
        ({"approval.status": "none", "approval.disabled": None, "annotations.read_only": True}, "open", ""),
        ({"approval.status": "none", "approval.disabled": True}, "user-off", "approval.disabled"),
        ({"approval.status": "Approved"}, "pending", "approval.status"),
        ({"approval.status": "unknown"}, "pending", "approval.status"),
    ],
)
def test_values_that_do_not_fit_together_are_unknown(row: Mapping[str, object], rule: str, unread: str) -> None:
    """A tool that only reads destroys nothing, and a tool without a record is not disabled by one (spec A.2)."""
    answer = _answers(_rule_set(_RECORD), [{**_APPROVED, **row}])[0]
    assert (answer[1], answer[3]) == (rule, unread)


@pytest.mark.parametrize("text", [ODD_POLICY, _RECORD])
@pytest.mark.parametrize("dialect", SqlDialect)
def test_every_dialect_is_what_its_parser_reads(dialect: SqlDialect, text: str) -> None:
    """Three of them are run elsewhere; that one is parsed is all that is shown for BigQuery."""
    rule_set = _rule_set(text)
    query = as_sql(rule_set, diagram_of(rule_set), "drawn", Query(dialect))
    parsed = sqlglot.parse_one(query, dialect=dialect)
    assert isinstance(parsed, sqlglot.exp.Query)
    assert [each.alias_or_name for each in parsed.selects][-7:] == [
        *("status", "rule", "undetermined", "unread", "withhold_text", "lifted_by", "retry")
    ]


def test_postgres_cannot_hold_a_column_with_a_long_name() -> None:
    """It would cut the name."""
    key = "k" * 60
    text = _RECORD.replace("rules:", f"labels: {{tool: {{{key}: [a]}}}}\nrules:").replace(
        "annotations.destructive: true", f"tool.label.{key}: a"
    )
    rule_set = _rule_set(text)
    with pytest.raises(UnfitSqlColumn, match="71 bytes"):
        as_sql(rule_set, diagram_of(rule_set), "drawn", Query(SqlDialect.POSTGRES))


def test_two_labels_that_would_be_one_column_are_refused() -> None:
    """The columns of BigQuery have neither dots nor hyphens."""
    text = _RECORD.replace("rules:", "labels: {tool: {a-b: [x], a_b: [x]}}\nrules:").replace(
        "annotations.destructive: true", "tool.label.a-b: x, tool.label.a_b: x"
    )
    rule_set = _rule_set(text)
    with pytest.raises(UnfitSqlColumn, match="would be one column"):
        as_sql(rule_set, diagram_of(rule_set), "drawn", Query(SqlDialect.BIGQUERY))
