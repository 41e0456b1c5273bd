"""Conditions in Kleene's three-valued logic: true, false, or undetermined where they rest on an unknown fact."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from callability.vocabulary import UNKNOWN

Facts = Mapping[str, str]
Truth = bool | None
"""True, False, or None for undetermined."""


@dataclass(frozen=True, slots=True)
class Is:
    """The fact has one of the values."""

    fact: str
    values: frozenset[str]

    def truth(self, facts: Facts) -> Truth:
        """Undetermined where the fact is unknown."""
        value = facts[self.fact]
        return None if value == UNKNOWN else value in self.values


@dataclass(frozen=True, slots=True)
class All:
    """Every part holds."""

    parts: tuple[Condition, ...]

    def truth(self, facts: Facts) -> Truth:
        """False where one part is false, whatever is unknown."""
        return _every(part.truth(facts) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Any:
    """At least one part holds."""

    parts: tuple[Condition, ...]

    def truth(self, facts: Facts) -> Truth:
        """True where one part is true, whatever is unknown."""
        return _negated(_every(_negated(part.truth(facts)) for part in self.parts))


@dataclass(frozen=True, slots=True)
class Not:
    """The part does not hold."""

    part: Condition

    def truth(self, facts: Facts) -> Truth:
        """Undetermined where the part is."""
        return _negated(self.part.truth(facts))


Condition = Is | All | Any | Not


def facts_read(condition: Condition) -> tuple[str, ...]:
    """Return the facts that a condition reads, each once, in the order of the text."""
    return tuple(dict.fromkeys(_facts(condition)))


def _facts(condition: Condition) -> Iterator[str]:
    match condition:
        case Is(fact=fact):
            yield fact
        case Not(part=part):
            yield from _facts(part)
        case All(parts=parts) | Any(parts=parts):
            for part in parts:
                yield from _facts(part)


def _every(truths: Iterable[Truth]) -> Truth:
    undetermined = False
    for truth in truths:
        if truth is False:
            return False
        undetermined = undetermined or truth is None
    return None if undetermined else True


def _negated(truth: Truth) -> Truth:
    return None if truth is None else not truth
