"""A policy as a SQL query that decides each row of a table: rule by rule, as the rule file has them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from callability.kernel.semantics import SEMANTICS
from callability.policy.deciding.building import withheld_in
from callability.policy.deciding.combination_set import CombinationSets
from callability.policy.deciding.diagram import DecisionDiagram
from callability.policy.deciding.unread_sets import UnreadSets
from callability.policy.questions.fact import NameFact
from callability.policy.reporting.sql_dialect import SPELLINGS, Dialect
from callability.policy.reporting.sql_facts import SqlFacts
from callability.policy.rules.rule_set import Rule, RuleSet
from callability.vocabulary import UNKNOWN

TABLE = "inventory"
"""The table that a query reads if no other is named."""
KEPT = ("server.name", "tool.name")
"""The columns that a query passes on if no others are chosen."""


@dataclass(frozen=True, slots=True)
class Query:
    """How a query is written: its dialect, the table that it reads, and the columns that it passes on."""

    dialect: Dialect
    table: str = TABLE
    kept: tuple[str, ...] = KEPT


def as_sql(rule_set: RuleSet, diagram: DecisionDiagram, revision: str, query: Query) -> str:
    """Return a query with a row of verdict columns for each row of a table of facts.

    A column is named as its fact, and NULL in it is an unknown fact: a rule whose condition is NULL is undetermined.
    The query has the columns `status`, `rule`, `undetermined`, `unread` (facts with commas between them),
    `withhold_text`, `lifted_by` and `retry`, which is NULL where the verdict is undetermined.

    Raises:
        UnfitColumn: the dialect cannot have a column of such a name.
        SetTooLarge: the unread facts of some rule have no short text.
        TooManyNodes: they take too much to compute.
    """
    written = _Written(rule_set, CombinationSets(diagram.space, diagram.order), query)
    return "\n".join((*written.header(revision), *written.facts(), *written.reached(), *written.answered()))


class _Written:
    """The parts of a query."""

    def __init__(self, rule_set: RuleSet, sets: CombinationSets, query: Query) -> None:
        self._rule_set = rule_set
        self._sets = sets
        self._query = query
        self._spelling = SPELLINGS[query.dialect]
        self._facts = SqlFacts(sets.space, self._spelling)
        self._unread = UnreadSets(sets)

    def header(self, revision: str) -> Iterator[str]:
        """Yield comments: what the query decides by, and the columns that it reads."""
        question = self._rule_set.question
        yield f"-- callability: policy revision {revision}, semantics {SEMANTICS}, {self._query.dialect}"
        yield f"-- Columns of {self._query.table}; NULL is an unknown fact:"
        for name in self._facts.sources():
            fact = question.facts[name]
            kind = "boolean" if fact.boolean else "text" if isinstance(fact, NameFact) else " | ".join(fact.values)
            yield f"--   {self._facts.column(name)} {kind}".replace("\n", " ")

    def facts(self) -> Iterator[str]:
        """Yield the first part: the columns that are passed on, and what each fact is read as."""
        kept = (f"{self._facts.column(name)} AS {self._kept(number)}" for number, name in enumerate(self._query.kept))
        read = (f"{text} AS {self._facts.column(name)}" for name, text in self._facts.readings().items())
        yield "WITH facts AS ("
        yield "  SELECT"
        yield ",\n".join(f"    {each}" for each in (*kept, *read))
        yield f"  FROM {self._query.table}"
        yield "),"

    def reached(self) -> Iterator[str]:
        """Yield the second part: the number of the rule that was reached, negative if it was undetermined."""
        yield "reached AS ("
        yield "  SELECT facts.*,"
        yield from self._decision()
        yield "  FROM facts"
        yield "),"

    def _decision(self) -> Iterator[str]:
        tests: list[str] = []
        for number, rule in enumerate(self._rule_set.rules, 1):
            if rule.when is None:
                # The last rule: no other is tried after it.
                yield from (
                    ("    CASE", *tests, f"      ELSE {number}", "    END AS decision")
                    if tests
                    else (f"    {number} AS decision",)
                )
                return
            condition = self._facts.condition(rule.when)
            tests.append(f"      WHEN {condition} THEN {number}")
            if not self._is_always_known(rule):
                tests.append(f"      WHEN ({condition}) IS NULL THEN -{number}")

    def answered(self) -> Iterator[str]:
        """Yield the rest: the unread facts, and then everything that follows from rule and facts."""
        yield "answered AS ("
        yield "  SELECT reached.*,"
        yield from self._case("decision", self._unread_texts(), self._spelling.text(""), "unread")
        yield "  FROM reached"
        yield ")"
        yield "SELECT"
        for number, name in enumerate(self._query.kept):
            yield f"  {self._kept(number)} AS {self._facts.column(name)},"
        yield from self._verdict()
        yield "FROM answered"

    def _verdict(self) -> Iterator[str]:
        question, text = self._rule_set.question, self._spelling.text
        rules = list(enumerate(self._rule_set.rules, 1))
        undetermined = question.undetermined
        statuses = {
            rule.status: ", ".join(str(n) for n, each in rules if each.status == rule.status) for _, rule in rules
        }
        by_status = [(f"WHEN decision IN ({numbers}) THEN", status) for status, numbers in statuses.items()]
        yield "  CASE"
        yield from (f"    {test} {text(status)}" for test, status in by_status)
        yield f"    ELSE {text(undetermined)}"
        yield "  END AS status,"
        yield from self._case("ABS(decision)", ((n, text(rule.id)) for n, rule in rules), "NULL", "rule,", indent="  ")
        yield "  decision < 0 AS undetermined,"
        yield "  unread,"
        withheld = withheld_in(self._sets)
        if withheld is not None:
            shown = self._facts.holds_in(~withheld, self._sets.axes, self._sets.nodes)
            yield f"  NOT COALESCE({shown}, FALSE) AS withhold_text,"
        yield "  CASE"
        yield from (f"    {test} {text(question.status(status).lifted_by)}" for test, status in by_status)
        yield f"    ELSE {text(undetermined.lifted_by)}"
        yield "  END AS lifted_by,"
        yield "  CASE"
        # Of an undetermined row, it depends on every combination that the unknown facts can still turn out to have.
        yield from (f"    {test} {text(question.status(status).retry)}" for test, status in by_status)
        yield "  END AS retry"

    def _unread_texts(self) -> Iterator[tuple[int, str]]:
        """Yield for each rule that can be undetermined its number, negative, and a text with its unread facts."""
        unknown = self._sets.none
        for number, rule in enumerate(self._rule_set.rules, 1):
            found = self._unread.by_fact(rule.when) if rule.when else {}
            truths = self._sets.truths(rule.when)
            unknown = truths.possible - truths.certain
            tests = []
            for fact, where in found.items():
                if where:
                    is_unknown = self._sets.where(fact, (UNKNOWN,))
                    if where == unknown:
                        tests.append((fact, ""))
                    elif where == unknown & is_unknown:
                        tests.append((fact, f"{self._facts.column(fact)} IS NULL"))
                    else:
                        tests.append((fact, self._facts.holds_in(where, self._sets.axes, self._sets.nodes)))
            if tests:
                yield -number, self._listed(tests)

    def _listed(self, tests: list[tuple[str, str]]) -> str:
        """Return a text of the facts whose tests are true, with commas between them."""
        text = self._spelling.text
        if len(tests) == 1:
            return text(tests[0][0])
        parts = (
            f"CASE WHEN {test} THEN {text(f',{fact}')} ELSE {text('')} END" if test else text(f",{fact}")
            for fact, test in tests
        )
        return f"SUBSTR(CONCAT({', '.join(parts)}), 2)"

    def _is_always_known(self, rule: Rule) -> bool:
        """Say whether the condition of a rule cannot be NULL, whatever the table has."""
        facts = [self._rule_set.question.facts[name] for name in rule.reads]
        return all(fact.asserted and not isinstance(fact, NameFact) for fact in facts)

    def _kept(self, number: int) -> str:
        return f"kept_{number + 1}"

    def _case(
        self, of: str, texts: Iterator[tuple[int, str]], otherwise: str, name: str, *, indent: str = "    "
    ) -> Iterator[str]:
        found = list(texts)
        if not found:
            yield f"{indent}{otherwise} AS {name}"
            return
        yield f"{indent}CASE {of}"
        yield from (f"{indent}  WHEN {number} THEN {text}" for number, text in found)
        yield f"{indent}  ELSE {otherwise}"
        yield f"{indent}END AS {name}"
