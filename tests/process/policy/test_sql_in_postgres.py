"""PostgreSQL decides by the SQL that a policy is printed as, as the policy does."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from callability.compiler.diagram import DecisionDiagram
from callability.compiler.policy import load
from callability.compiler.question import LabelFact
from callability.compiler.questions import CALLABILITY
from callability.compiler.rule_file import read_rule_set
from callability.compiler.rule_set import RuleSet
from callability.compiler.sql import SPELLINGS, Query, SqlDialect, SqlFacts, as_sql
from callability.files import document
from callability.files.shipped_policy import examples, export_policy
from support.drawn_policies import diagram_of
from support.postgres import Postgres, postgres, programs
from support.sql_rows import ODD_NAMES, ODD_POLICY, answer_of, columns_of, drawn_states, row_of

pytestmark = pytest.mark.skipif(programs() is None, reason="PostgreSQL, or a user to run it as, is missing")


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    """A server for all tests of this module."""
    with postgres() as running:
        yield running


def _answers(server: Postgres, rule_set: RuleSet, diagram: DecisionDiagram, states: list[dict[str, str]]) -> list[str]:
    spelling = SPELLINGS[SqlDialect.POSTGRES]
    columns = columns_of(SqlFacts(diagram.space, spelling))
    types = ", ".join(f"{spelling.column(name)} {kind}" for name, kind in columns.items())
    rows = (row_of(state, columns, diagram.space.question.facts) for state in states)
    values = (
        ", ".join("NULL" if v is None else str(v) if isinstance(v, bool) else spelling.text(v) for v in row)
        for row in rows
    )
    inserted = ",\n".join(f"({number}, {row})" for number, row in enumerate(values))
    query = as_sql(rule_set, diagram, "drawn", Query(SqlDialect.POSTGRES, kept=("number",)))
    script = (
        f"DROP TABLE IF EXISTS inventory; CREATE TABLE inventory (number INTEGER, {types});\n"
        f"INSERT INTO inventory VALUES {inserted};\nSELECT * FROM ({query}\n) answers ORDER BY number;\n"
    )
    return ["\t".join(row[1:]) for row in server.run(script)]


def _wanted(diagram: DecisionDiagram, states: list[dict[str, str]]) -> list[str]:
    answers = (answer_of(diagram, state) for state in states)
    return ["\t".join(map(_printed, answer)) for answer in answers]


def _printed(value: str | bool | None) -> str:
    if value is None:
        return "NULL"
    return ("f", "t")[value] if isinstance(value, bool) else str(value)


@pytest.mark.parametrize("example", [None, *examples()])
def test_postgres_decides_as_each_shipped_policy_does(server: Postgres, tmp_path: Path, example: str | None) -> None:
    """In every combination of facts, or in 2,000 drawn ones."""
    export_policy(tmp_path, example)
    proved = load(tmp_path, engine=None).rule_sets["callability"]
    states = drawn_states(proved.diagram, 2_000)
    assert _answers(server, proved.rule_set, proved.diagram, states) == _wanted(proved.diagram, states)


def test_names_and_labels_may_hold_what_is_special_in_sql(server: Postgres) -> None:
    """Quotes, escapes and the wildcards of LIKE are characters like any other."""
    rule_set, findings = read_rule_set(document.parse(ODD_POLICY.encode(), "callability.yaml"), CALLABILITY)
    assert rule_set, findings
    diagram = diagram_of(rule_set)
    label = next(fact for fact in rule_set.question.facts.values() if isinstance(fact, LabelFact))
    states = [
        CALLABILITY.complete({"server.name": one, "tool.name": other, label.name: value})
        for one, other, value in product(ODD_NAMES, ODD_NAMES, label.readings)
    ]
    assert _answers(server, rule_set, diagram, states) == _wanted(diagram, states)
