"""Conditions in Kleene's three-valued logic: true, false, or undetermined if an unknown fact could change them.

Ways to make a condition false: the values that its facts would need.

Glob patterns over names: `*` matches any characters, and `?` any one character.

The semantics of a rule set. This is the specification; the engine and the table are tested against it.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from itertools import product
from typing import Any

from callability.contract.finding import Place
from callability.contract.vocabulary import UNKNOWN

_WILDCARDS = frozenset("*?")
KEPT = 4_096
"""Patterns, and sets of them, that are kept as they are looked at."""


def is_glob(text: str) -> bool:
    """Say whether a string is a pattern, and not one exact name."""
    return not _WILDCARDS.isdisjoint(text)


def matches(glob: str, name: str) -> bool:
    """Say whether a pattern matches the whole of a name, case-sensitively.

    The time that it takes grows with the lengths of both, and no faster, whatever the pattern.
    """
    return _compile(glob).match(name) is not None


def holds(patterns: frozenset[str], name: str) -> bool:
    """Say whether a name is one of some names, or is matched by one of the patterns among them."""
    return name in patterns or any(matches(glob, name) for glob in _globs(patterns))


@lru_cache(maxsize=KEPT)
def hold(patterns: frozenset[str], names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names that are among some names, or are matched by one of the patterns among them."""
    compiled = [_compile(glob) for glob in _globs(patterns)]
    return tuple([name for name in names if name in patterns or any(each.match(name) for each in compiled)])


@lru_cache(maxsize=KEPT)
def _globs(patterns: frozenset[str]) -> tuple[str, ...]:
    return tuple(filter(is_glob, patterns))


@lru_cache(maxsize=KEPT)
def _compile(glob: str) -> re.Pattern[str]:
    # A bracket is a character like any other in a pattern, which `fnmatch` sees otherwise.
    return re.compile(fnmatch.translate(glob.replace("[", "[[]")))


Facts = Mapping[str, str]
Truth = bool | None
"""True, False, or None for undetermined."""


@dataclass(frozen=True, slots=True)
class Is:
    """The fact has one of the values; for a name these may be patterns. The place does not count for equality."""

    fact: str
    values: frozenset[str]
    place: Place | None = field(default=None, compare=False)

    def truth(self, facts: Facts) -> Truth:
        """Undetermined if the fact is unknown."""
        value = facts[self.fact]
        return None if value == UNKNOWN else holds(self.values, value)


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every part holds."""

    parts: tuple[Condition, ...]

    def truth(self, facts: Facts) -> Truth:
        """False if one part is false, even if others are unknown."""
        return _every(part.truth(facts) for part in self.parts)


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one part holds."""

    parts: tuple[Condition, ...]

    def truth(self, facts: Facts) -> Truth:
        """True if one part is true, even if others are unknown."""
        return _negate(_every(_negate(part.truth(facts)) for part in self.parts))


@dataclass(frozen=True, slots=True)
class Not:
    """The part does not hold."""

    part: Condition

    def truth(self, facts: Facts) -> Truth:
        """Undetermined if the part is."""
        return _negate(self.part.truth(facts))


Condition = Is | AllOf | AnyOf | Not


def facts_read(condition: Condition) -> tuple[str, ...]:
    """Return the facts that a condition reads, each once, in the order of the text."""
    return tuple(dict.fromkeys(atom.fact for atom in atoms(condition)))


def atoms(condition: Condition | None) -> Iterator[Is]:
    """Yield the parts of a condition that read a fact, in the order of the text; none where there is no condition."""
    match condition:
        case Is():
            yield condition
        case Not(part=part):
            yield from atoms(part)
        case AllOf(parts=parts) | AnyOf(parts=parts):
            for part in parts:
                yield from atoms(part)


def _every(truths: Iterable[Truth]) -> Truth:
    undetermined = False
    for truth in truths:
        if truth is False:
            return False
        undetermined = undetermined or truth is None
    return None if undetermined else True


def _negate(truth: Truth) -> Truth:
    return None if truth is None else not truth


MOST = 64
"""Ways that are kept of a part of a condition: those of the least effort."""

Values = Mapping[str, frozenset[str]]
"""The values that each fact can have; none: it is unknown, and makes nothing true or false."""
Falsification = Mapping[str, frozenset[str]]
"""For some facts, values of which any will do; any other fact may stay what it is."""
Effort = Callable[[Falsification], Any]
"""What says which of two ways is the better one: that of which it returns less."""


def falsifications(condition: Condition, values: Values, effort: Effort) -> list[Falsification]:
    """Return ways to make a condition false, in Kleene's logic, the best first; none: there are no such values."""
    return sorted(_ways(condition, values, effort, wanted=False), key=effort)


def _ways(condition: Condition, values: Values, effort: Effort, *, wanted: bool) -> list[Falsification]:
    """Return ways to give a condition the truth that is wanted."""
    match condition:
        case Is(fact=fact, values=named):
            fitting = frozenset(value for value in values[fact] if holds(named, value) is wanted)
            return [{fact: fitting}] if fitting else []
        case Not(part=part):
            return _ways(part, values, effort, wanted=not wanted)
        case AllOf(parts=parts) | AnyOf(parts=parts):
            each = [_ways(part, values, effort, wanted=wanted) for part in parts]
            if isinstance(condition, AllOf) is not wanted:
                return _best([way for ways in each for way in ways], effort)
            return reduce(lambda one, other: _best(_both(one, other), effort), each)


def _both(one: list[Falsification], other: list[Falsification]) -> list[Falsification]:
    """Return ways that are one of each list at once."""
    joined = ({fact: _common(fact, left, right) for fact in {**left, **right}} for left, right in product(one, other))
    return [way for way in joined if all(way.values())]


def _common(fact: str, one: Falsification, other: Falsification) -> frozenset[str]:
    if fact in one and fact in other:
        return one[fact] & other[fact]
    return one[fact] if fact in one else other[fact]


def _best(ways: list[Falsification], effort: Effort) -> list[Falsification]:
    different = {frozenset(way.items()): way for way in ways}.values()
    return list(different) if len(different) <= MOST else sorted(different, key=effort)[:MOST]


SEMANTICS = 2
"""The version of what facts and rules mean. It grows when a release gives other answers under the same rule files.

2: a tool that is known to be read-only is not destructive and is idempotent, whatever its other annotations say. In 1,
which was never published as a number, each annotation counted by itself.
"""


@dataclass(frozen=True, slots=True)
class Decision:
    """Which rule was reached, counted from 0, and whether it was undetermined."""

    rule: int
    undetermined: bool


def decide(conditions: Iterable[Condition | None], facts: Facts) -> Decision:
    """Return the decision of the first rule whose condition is not false: true, it gives its status; undetermined, it
    gives the undetermined status of the question. A rule without a condition always holds.

    Raises:
        LookupError: every rule is false, which a rule set whose last rule has no condition cannot be.
    """
    for number, condition in enumerate(conditions):
        truth = condition.truth(facts) if condition else True
        if truth is not False:
            return Decision(number, undetermined=truth is None)
    raise LookupError("no rule decides")
