"""Conditions in Kleene's three-valued logic: true, false, or undetermined if an unknown fact could change them.

Glob patterns over names: `*` matches any characters, and `?` any one character.

What an explanation needs to know of a rule set, wherever it comes from: a rule file or a compiled policy.

The semantics of a rule set. This is the specification; the engine and the table are tested against it.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

from callability.contract.finding import Place
from callability.contract.vocabulary import UNKNOWN, LiftedBy

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


class ExplainableFact(Protocol):
    """An input with a finite list of values."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def values(self) -> tuple[str, ...]:
        """Its values, in their order."""

    @property
    def open_value(self) -> str:
        """Its default."""

    @property
    def opened_by(self) -> LiftedBy | None:
        """Who can change it; None: nobody can."""

    @property
    def action(self) -> str:
        """The name of the action by which it is changed; empty if there is none."""

    @property
    def opened_by_any_value(self) -> bool:
        """Whether a path changes it to each value that helps, and not to its default alone."""

    def shown(self, given: str) -> str:
        """Return a given value as a sentence shows it."""


class ExplainableRule(Protocol):
    """A condition and the status that it gives."""

    @property
    def id(self) -> str:
        """Its name in its rule set."""

    @property
    def when(self) -> Condition | None:
        """Its condition; without one it always holds."""

    @property
    def status(self) -> str:
        """Its status."""

    @property
    def reads(self) -> tuple[str, ...]:
        """The facts that its condition reads, in the order of the text."""


class ExplainableQuestion(Protocol):
    """What a rule set answers."""

    @property
    def facts(self) -> Mapping[str, ExplainableFact]:
        """Every fact by name, in order."""

    @property
    def open_status(self) -> str | None:
        """The status to which every other can be opened, if there is one."""

    @property
    def undetermined(self) -> str:
        """The status of an undetermined verdict."""


class ExplainableRuleSet(Protocol):
    """The rules that answer a question, in order."""

    @property
    def question(self) -> ExplainableQuestion:
        """The question."""

    @property
    def rules(self) -> Sequence[ExplainableRule]:
        """The rules; the last has no condition."""


class ExplainableDiagram(Protocol):
    """A decision diagram."""

    @property
    def first(self) -> Any:
        """Its first node: a pair of the number of an axis, and for each of its points a node or a verdict.

        The axes of the nodes below have higher numbers. It is a verdict if all verdicts are the same.
        """

    def facts_of_axis(self, number: int) -> Sequence[str]:
        """Return the names of the facts of an axis."""

    def points_of_axis(self, number: int) -> Iterable[tuple[int, tuple[str, ...]]]:
        """Return the points of an axis in order, each with the readings of its facts."""

    def reading(self, fact: str, given: str) -> str:
        """Return the reading of a given value of a fact: of a name, what represents its class."""

    def unread_at(self, facts: Mapping[str, str]) -> tuple[str, ...]:
        """Return the unknown facts that keep the verdict for some facts undetermined, in the order of the facts."""


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


def decide(rules: Sequence[ExplainableRule], facts: Facts) -> Decision:
    """Return the decision of the first rule that is not false: true, it gives its status; undetermined, it gives the
    undetermined status of the question.

    Raises:
        LookupError: every rule is false, which a rule set whose last rule has no condition cannot be.
    """
    for number, rule in enumerate(rules):
        truth = rule.when.truth(facts) if rule.when else True
        if truth is not False:
            return Decision(number, undetermined=truth is None)
    raise LookupError("no rule decides")
