"""Rows of facts for the SQL that a policy is printed as, and the answers that they have to get."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from random import Random

from callability.compiler.diagram import DecisionDiagram
from callability.compiler.question import Fact
from callability.compiler.sql import SqlFacts
from callability.contract.vocabulary import UNKNOWN

Row = tuple[str | bool | None, ...]
Answer = tuple[str, str, bool, str, bool, str, str | None]
"""Status, rule, undetermined, unread, withhold_text, lifted_by and retry, of an undetermined row None."""


def drawn_states(diagram: DecisionDiagram, count: int, seed: int = 1) -> list[dict[str, str]]:
    """Return combinations of facts: all of them if there are at most so many, and otherwise so many drawn ones."""
    space = diagram.space
    if space.size <= count:
        return [space.named(each) for each in space.combinations()]
    chance = Random(seed)
    drawn = (tuple(chain.from_iterable(chance.choice(axis.points).values for axis in space.axes)) for _ in range(count))
    return [space.named(each) for each in drawn]


def row_of(facts: Mapping[str, str], columns: Iterable[str], question: Mapping[str, Fact]) -> Row:
    """Return the row of a table: booleans, texts, and NULL for what is unknown."""
    return tuple(_cell(question[name], facts[name]) for name in columns)


def _cell(fact: Fact, value: str) -> str | bool | None:
    if value == UNKNOWN:
        return None
    return value == "true" if fact.boolean else value


def columns_of(facts: SqlFacts) -> dict[str, str]:
    """Return the SQL type of each column that a query reads, by the name of its fact."""
    question = facts.space.question.facts
    names = dict.fromkeys(("server.name", "tool.name", *facts.sources()))
    return {name: "BOOLEAN" if question[name].boolean else "TEXT" for name in names}


def answer_of(diagram: DecisionDiagram, facts: Mapping[str, str]) -> Answer:
    """Return the answer that a row has to get."""
    verdict = diagram.verdict(facts)
    unread = diagram.unread(verdict, facts)
    question = diagram.space.question
    status = question.status(verdict.status)
    retry = None if verdict.undetermined else status.retry
    withheld = bool(verdict.withhold_text)
    return (status, verdict.rule, verdict.undetermined, ",".join(unread), withheld, status.lifted_by, retry)


ODD_POLICY = r"""
labels:
  server:
    half-done: [a.b, c-d, E_f]
rules:
  - id: odd-names
    when: {tool.name: ["50%_*", "it's?", "back\\slash", "!*", plain], not: {server.name: [a_b, "a%b*"]}}
    status: disabled_by_config
    action: "{edit_policy}."
  - id: odd-labels
    when: {server.label.half-done: [a.b, c-d]}
    status: disabled_by_config
    action: "{edit_labels}."
  - {id: open, status: callable}
words:
  disabled_by_config: {remediation: "{edit_policy}.", rejection: "{edit_policy}."}
  disabled_unknown: {remediation: "{check_logs}.", rejection: "{check_logs}."}
"""
"""Rules with what is special in SQL; the words do not matter."""
ODD_NAMES = ("50%_x", "50xyx", "it's!", "its!", "back\\slash", "backslash", "!", "plain", "a_b", "axb", "a%b", "a%bc")
