"""Facts, and the states that they can be in together."""

from __future__ import annotations

from dataclasses import dataclass

from callability.vocabulary import UNKNOWN, LiftedBy

BOOLEAN = ("true", "false")


@dataclass(frozen=True, slots=True)
class Fact:
    """A typed input with a finite domain.

    `open_value` is the value that stands in nobody's way: what a test's facts have when they are left out, and what a
    path to callable opens the fact to, by `opened_by` (None: nobody can change it) and `action`. An `asserted` fact is
    never unknown: it has its open value unless somebody says otherwise.
    """

    name: str
    values: tuple[str, ...]
    open_value: str
    opened_by: LiftedBy | None = None
    action: str = ""
    asserted: bool = False

    @property
    def boolean(self) -> bool:
        """Whether rule files write its values as `true` and `false`."""
        return self.values == BOOLEAN

    @property
    def readings(self) -> tuple[str, ...]:
        """Its values, and `unknown` where it can be."""
        return self.values if self.asserted else (*self.values, UNKNOWN)


@dataclass(frozen=True, slots=True)
class Point:
    """One state of the facts of an axis, in words and as values."""

    label: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Axis:
    """Facts that vary together, and every state that they can be in; `always` where rules need not read them."""

    facts: tuple[str, ...]
    points: tuple[Point, ...]
    always: bool = False


def axis_of(fact: Fact, *, always: bool = False) -> Axis:
    """Return the axis of a fact that varies by itself."""
    return Axis((fact.name,), tuple(Point(value, (value,)) for value in fact.readings), always=always)
