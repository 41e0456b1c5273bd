"""A policy as a SQL query that decides each row of a table: rule by rule, as the rule file has them.

A fact is a column, and NULL is an unknown fact.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import product

from callability.compiler.combination_sets import CombinationSet, CombinationSets, Space
from callability.compiler.diagram import DecisionDiagram, UnreadSets, withheld_in
from callability.compiler.nodes import EMPTY, FULL, Node, Nodes
from callability.compiler.question import Axis, Fact, NameFact
from callability.compiler.rule_set import Rule, RuleSet
from callability.contract.vocabulary import UNKNOWN
from callability.kernel.conditions import SEMANTICS, AllOf, AnyOf, Condition, Is, Not, is_glob

_ESCAPE = "!"


class UnfitSqlColumn(Exception):
    """A name that cannot be the name of a column in a dialect. Its text says why."""


class SqlDialect(StrEnum):
    """A dialect of SQL."""

    DUCKDB = "duckdb"
    SPARK = "spark"
    POSTGRES = "postgres"
    BIGQUERY = "bigquery"


@dataclass(frozen=True, slots=True)
class SqlSpelling:
    """How a dialect spells what differs between dialects.

    `quote` surrounds the name of a column. `backslash`: a backslash escapes the next character of a text; otherwise, a
    quote in a text is doubled. `like_escape`: `LIKE` takes an escape character; without it, that is the backslash.
    `dots`: the name of a column may hold any character. `longest`: how many bytes such a name has at most; 0: any.
    """

    quote: str
    backslash: bool
    like_escape: bool
    dots: bool
    longest: int = 0

    def column(self, name: str) -> str:
        """Return the name of a column.

        Raises:
            UnfitColumn: the dialect cannot have such a column.
        """
        if self.longest and len(name.encode()) > self.longest:
            raise UnfitSqlColumn(
                f"the column `{name}` has {len(name.encode())} bytes, and at most {self.longest} are read"
            )
        spelled = name if self.dots else re.sub(r"[^A-Za-z0-9_]", "_", name)
        return self.quote + spelled.replace(self.quote, self.quote * 2) + self.quote

    def text(self, value: str) -> str:
        """Return a text as a literal."""
        if self.backslash:
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r") + "'"
        return "'" + value.replace("'", "''") + "'"

    def like(self, column: str, glob: str) -> str:
        """Return the condition that a column matches a pattern of a rule file."""
        escape = _ESCAPE if self.like_escape else "\\"
        pattern = "".join(
            {"*": "%", "?": "_"}.get(each) or (escape + each if each in {"%", "_", escape} else each) for each in glob
        )
        return f"{column} LIKE {self.text(pattern)}" + (f" ESCAPE '{_ESCAPE}'" if self.like_escape else "")


SPELLINGS = {
    SqlDialect.DUCKDB: SqlSpelling(quote='"', backslash=False, like_escape=True, dots=True),
    SqlDialect.SPARK: SqlSpelling(quote="`", backslash=True, like_escape=True, dots=True),
    SqlDialect.POSTGRES: SqlSpelling(quote='"', backslash=False, like_escape=True, dots=True, longest=63),
    SqlDialect.BIGQUERY: SqlSpelling(quote="`", backslash=True, like_escape=False, dots=False),
}


MAX_CONJUNCTIONS = 2_000
"""Conjunctions that the text of one set of combinations may have."""


class SetTooLarge(Exception):
    """A set of combinations that has no short text."""


@dataclass(frozen=True, slots=True)
class SqlFacts:
    """Writes conditions over the facts of a space in a dialect."""

    space: Space
    spelling: SqlSpelling

    def column(self, fact: str) -> str:
        """Return the column of a fact.

        Raises:
            UnfitColumn: the dialect cannot have such a column.
        """
        return self.spelling.column(fact)

    def sources(self) -> tuple[str, ...]:
        """Return the facts whose columns are read, in the order of the facts.

        The annotations that depend on each other are read together with `annotations.read_only`, which gives the others
        their meaning.

        Raises:
            UnfitColumn: the dialect cannot have the columns.
        """
        read = set(self.space.facts)
        for axis in self.space.axes:
            if axis.normalized:
                read.add(_READ_ONLY)
        found = tuple(fact for fact in self.space.question.facts if fact in read)
        spelled: dict[str, str] = {}
        for fact in found:
            other = spelled.setdefault(self.column(fact), fact)
            if other != fact:
                raise UnfitSqlColumn(f"`{other}` and `{fact}` would be one column, {self.column(fact)}")
        return found

    def readings(self) -> dict[str, str]:
        """Return an expression for each fact of the space: its value, or NULL if it is unknown.

        A value outside the domain of a fact is unknown, and so are values that cannot occur together.
        """
        found: dict[str, str] = {}
        for axis in self.space.axes:
            if axis.normalized:
                found |= self._hints(axis)
            elif "approval.status" in axis.facts:
                found |= self._approval()
            else:
                fact = self.space.question.facts[axis.facts[0]]
                found[fact.name] = self._reading(fact)
        return found

    def condition(self, condition: Condition) -> str:
        """Return a condition of a rule: SQL's logic is Kleene's, so it is NULL where it is undetermined."""
        match condition:
            case Is(fact=fact, values=values):
                return self._is(self.space.question.facts[fact], values)
            case Not(part=part):
                return f"NOT {_group(self.condition(part), part)}"
            case AllOf(parts=parts):
                return " AND ".join(_group(self.condition(part), part) for part in parts)
            case AnyOf(parts=parts):
                return " OR ".join(_group(self.condition(part), part) for part in parts)

    def holds_in(self, where: CombinationSet, axes: tuple[Axis, ...], nodes: Nodes) -> str:
        """Return a condition that is true in a set of combinations, and false or NULL elsewhere.

        Raises:
            SetTooLarge: it would have more than `MAX_CONJUNCTIONS` conjunctions.
        """
        found = []
        for points in _paths(where.node, nodes):
            tests = [self._at(axes[place], numbers) for place, numbers in points]
            found.append(" AND ".join(filter(None, tests)) or "TRUE")
            if len(found) > MAX_CONJUNCTIONS:
                raise SetTooLarge
        if not found:
            return "FALSE"
        return " OR ".join(f"({each})" for each in found) if len(found) > 1 else found[0]

    def _is(self, fact: Fact, values: frozenset[str]) -> str:
        column = self.column(fact.name)
        if fact.boolean:
            return {frozenset({"true"}): column, frozenset({"false"}): f"NOT {column}"}.get(
                values, f"({column} OR NOT {column})"
            )
        tests = [*self._name_tests(column, [value for value in fact.spell(values) if not is_glob(value)])]
        if isinstance(fact, NameFact):
            names = sorted(value for value in values if not is_glob(value))
            globs = sorted(filter(is_glob, values))
            tests = [*self._name_tests(column, names), *(self.spelling.like(column, glob) for glob in globs)]
        return tests[0] if len(tests) == 1 else f"({' OR '.join(tests)})"

    def _name_tests(self, column: str, values: Collection[str]) -> Iterator[str]:
        texts = [self.spelling.text(value) for value in values]
        if len(texts) == 1:
            yield f"{column} = {texts[0]}"
        elif texts:
            yield f"{column} IN ({', '.join(texts)})"

    def _reading(self, fact: Fact) -> str:
        column = self.column(fact.name)
        if fact.boolean:
            return f"COALESCE({column}, {fact.open_value.upper()})" if fact.asserted else column
        if isinstance(fact, NameFact):
            return column
        texts = ", ".join(map(self.spelling.text, fact.values))
        known = f"CASE WHEN {column} IN ({texts}) THEN {column} END"
        return f"COALESCE({known}, {self.spelling.text(fact.open_value)})" if fact.asserted else known

    def _approval(self) -> dict[str, str]:
        """Return the two facts of an approval: a tool without a record is not disabled by one."""
        disabled, status = self.column("approval.disabled"), self.column("approval.status")
        records = ", ".join(map(self.spelling.text, ("approved", "pending", "changed")))
        none = self.spelling.text("none")
        return {
            "approval.disabled": f"CASE WHEN {status} = {none} THEN CASE WHEN {disabled} THEN NULL ELSE FALSE END"
            f" ELSE {disabled} END",
            "approval.status": f"CASE WHEN {status} IN ({records}) THEN {status}"
            f" WHEN {status} = {none} AND NOT COALESCE({disabled}, FALSE) THEN {status} END",
        }

    def _hints(self, axis: Axis) -> dict[str, str]:
        """Return the annotations that depend on each other: known together, and fixed for a read-only tool."""
        read_only = self.column(_READ_ONLY)
        if axis.facts == (_READ_ONLY,):
            return {_READ_ONLY: read_only}
        assert axis.normalized
        fixed = axis.normalized({_READ_ONLY: "true"})
        found = {}
        for fact in axis.facts:
            others = [f"{self.column(other)} IS NOT NULL" for other in (_READ_ONLY, *axis.facts) if other != fact]
            known = " AND ".join(dict.fromkeys(others))
            found[fact] = f"CASE WHEN {read_only} THEN {fixed[fact].upper()} WHEN {known} THEN {self.column(fact)} END"
        return found

    def _at(self, axis: Axis, points: Collection[int]) -> str:
        """Return the condition that the facts of an axis are at some of its points; empty if they are anywhere."""
        states = [axis.points[number].values for number in points]
        if len(states) == len(axis.points):
            return ""
        each = [dict.fromkeys(state[number] for state in states) for number in range(len(axis.facts))]
        if sum(point.values in set(product(*each)) for point in axis.points) == len(states):
            tests = (self._among(fact, tuple(values), axis) for fact, values in zip(axis.facts, each, strict=True))
            return " AND ".join(filter(None, tests))
        found = (
            " AND ".join(filter(None, (self._among(f, (v,), axis) for f, v in zip(axis.facts, state, strict=True))))
            for state in states
        )
        return "(" + " OR ".join(f"({each})" for each in found) + ")"

    def _among(self, name: str, readings: tuple[str, ...], axis: Axis) -> str:
        """Return the condition that a fact of an axis has one of some readings; empty if it has no others."""
        fact = self.space.question.facts[name]
        number = axis.facts.index(name)
        all_readings = frozenset(point.values[number] for point in axis.points)
        if all_readings <= frozenset(readings):
            return ""
        known = tuple(reading for reading in readings if reading != UNKNOWN)
        if all_readings - {UNKNOWN} <= frozenset(known):
            return f"{self.column(name)} IS NOT NULL"
        tests = [self._classes(fact, known) if isinstance(fact, NameFact) else self._is(fact, frozenset(known))] * bool(
            known
        )
        if UNKNOWN in readings:
            tests.append(f"{self.column(name)} IS NULL")
        return tests[0] if len(tests) == 1 else f"({' OR '.join(tests)})"

    def _classes(self, fact: NameFact, readings: Collection[str]) -> str:
        """Return the condition that a name is in one of some classes, given by their representatives."""
        cover = fact.classes.cover(readings)
        if cover is not None:
            units, complement = cover
            matched = self._is(fact, frozenset().union(*units))
            return f"NOT {matched if matched.startswith('(') else f'({matched})'}" if complement else matched
        found = []
        for members in fact.classes.numbers(readings):
            tests = [
                f"{'' if number in members else 'NOT '}({self._is(fact, unit)})"
                for number, unit in enumerate(fact.classes.units)
            ]
            found.append(" AND ".join(tests))
        return "(" + " OR ".join(f"({each})" for each in found) + ")"


_READ_ONLY = "annotations.read_only"


def _group(text: str, condition: Condition) -> str:
    return text if isinstance(condition, Is) and not text.startswith("NOT ") else f"({text})"


def _paths(node: Node, nodes: Nodes) -> Iterator[tuple[tuple[int, tuple[int, ...]], ...]]:
    """Yield the paths to a set's combinations: for each axis that is tested, its place and the points that lead on."""
    if node == FULL:
        yield ()
    elif node != EMPTY:
        children = nodes.children(node)
        for child in dict.fromkeys(children):
            points = tuple(number for number, each in enumerate(children) if each == child)
            for rest in _paths(child, nodes):
                yield ((nodes.axis(node), points), *rest)


TABLE = "inventory"
"""The table that a query reads if no other is named."""
KEPT = ("server.name", "tool.name")
"""The columns that a query passes on if no others are chosen."""


@dataclass(frozen=True, slots=True)
class Query:
    """How a query is written: its dialect, the table that it reads, and the columns that it passes on."""

    dialect: SqlDialect
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
    return "\n".join(
        (*written.header(revision), *written.facts(), *written.number_of_rule(), *written.verdict_of_rule())
    )


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
        kept = (
            f"{self._facts.column(name)} AS {self._number_of_kept(number)}"
            for number, name in enumerate(self._query.kept)
        )
        read = (f"{text} AS {self._facts.column(name)}" for name, text in self._facts.readings().items())
        yield "WITH facts AS ("
        yield "  SELECT"
        yield ",\n".join(f"    {each}" for each in (*kept, *read))
        yield f"  FROM {self._query.table}"
        yield "),"

    def number_of_rule(self) -> Iterator[str]:
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

    def verdict_of_rule(self) -> Iterator[str]:
        """Yield the rest: the unread facts, and then everything that follows from rule and facts."""
        yield "answered AS ("
        yield "  SELECT reached.*,"
        yield from self._case("decision", self._unread_texts(), self._spelling.text(""), "unread")
        yield "  FROM reached"
        yield ")"
        yield "SELECT"
        for number, name in enumerate(self._query.kept):
            yield f"  {self._number_of_kept(number)} AS {self._facts.column(name)},"
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
                yield -number, self._fact_list(tests)

    def _fact_list(self, tests: list[tuple[str, str]]) -> str:
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

    def _number_of_kept(self, number: int) -> str:
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
