"""Conditions in Kleene's three-valued logic: true, false, or undetermined if an unknown fact could change them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from callability.finding import Place
from callability.kernel.glob import holds
from callability.vocabulary import UNKNOWN

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
class All:
    """Every part holds."""

    parts: tuple[Condition, ...]

    def truth(self, facts: Facts) -> Truth:
        """False if one part is false, even if others are unknown."""
        return _every(part.truth(facts) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Any:
    """At least one part holds."""

    parts: tuple[Condition, ...]

    def truth(self, facts: Facts) -> Truth:
        """True if one part is true, even if others are unknown."""
        return _negated(_every(_negated(part.truth(facts)) for part in self.parts))


@dataclass(frozen=True, slots=True)
class Not:
    """The part does not hold."""

    part: Condition

    def truth(self, facts: Facts) -> Truth:
        """Undetermined if the part is."""
        return _negated(self.part.truth(facts))


Condition = Is | All | Any | Not


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
        case All(parts=parts) | Any(parts=parts):
            for part in parts:
                yield from atoms(part)


def _every(truths: Iterable[Truth]) -> Truth:
    undetermined = False
    for truth in truths:
        if truth is False:
            return False
        undetermined = undetermined or truth is None
    return None if undetermined else True


def _negated(truth: Truth) -> Truth:
    return None if truth is None else not truth
