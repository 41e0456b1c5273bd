"""The facts of a policy as columns of a SQL query, and conditions over them. NULL is an unknown fact."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import product

from callability.kernel.condition import All, Any, Condition, Is, Not
from callability.kernel.glob import is_glob
from callability.policy.deciding.combination_set import CombinationSet
from callability.policy.deciding.nodes import EMPTY, FULL, Node, Nodes
from callability.policy.deciding.space import Space
from callability.policy.questions.fact import Axis, Fact, NameFact
from callability.policy.reporting.sql_dialect import Spelling, UnfitColumn
from callability.vocabulary import UNKNOWN

MAX_CONJUNCTIONS = 2_000
"""Conjunctions that the text of one set of combinations may have."""


class SetTooLarge(Exception):
    """A set of combinations that has no short text."""


@dataclass(frozen=True, slots=True)
class SqlFacts:
    """Writes conditions over the facts of a space in a dialect."""

    space: Space
    spelling: Spelling

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
                raise UnfitColumn(f"`{other}` and `{fact}` would be one column, {self.column(fact)}")
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
                return f"NOT {_grouped(self.condition(part), part)}"
            case All(parts=parts):
                return " AND ".join(_grouped(self.condition(part), part) for part in parts)
            case Any(parts=parts):
                return " OR ".join(_grouped(self.condition(part), part) for part in parts)

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
        tests = [*self._named(column, [value for value in fact.written(values) if not is_glob(value)])]
        if isinstance(fact, NameFact):
            names = sorted(value for value in values if not is_glob(value))
            globs = sorted(filter(is_glob, values))
            tests = [*self._named(column, names), *(self.spelling.like(column, glob) for glob in globs)]
        return tests[0] if len(tests) == 1 else f"({' OR '.join(tests)})"

    def _named(self, column: str, values: Collection[str]) -> Iterator[str]:
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


def _grouped(text: str, condition: Condition) -> str:
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
