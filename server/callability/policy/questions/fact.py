"""Facts, and the states that they can be in together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from callability.finding import shown
from callability.policy.names.classes import NameClasses, name_classes, needless_patterns
from callability.policy.names.glob import holds
from callability.vocabulary import EDIT_LABELS, UNKNOWN, LiftedBy

BOOLEAN = ("true", "false")
NO_LABEL = "none"
"""The value of a label that is not there."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A typed input with a finite domain.

    `open_value` is the value that stands in nobody's way: what a test's facts have when they are left out, and what a
    path to callable opens the fact to, by `opened_by` (None: nobody can change it) and `action`. An `asserted` fact is
    never unknown: it has its open value unless somebody says otherwise. A `hint` is the upstream's own word.
    """

    name: str
    values: tuple[str, ...]
    open_value: str
    opened_by: LiftedBy | None = None
    action: str = ""
    asserted: bool = False
    hint: bool = False

    @property
    def boolean(self) -> bool:
        """Whether rule files write its values as `true` and `false`."""
        return self.values == BOOLEAN

    @property
    def readings(self) -> tuple[str, ...]:
        """Its values, and `unknown` where it can be."""
        return self.values if self.asserted else (*self.values, UNKNOWN)

    @property
    def stays_unknown(self) -> bool:
        """Whether the fact, once unknown, stays unknown until a person changes something: no later try can read it.

        The annotations of a tool are sent always or never by a caller, and so are labels and the name of the agent. A
        label whose value is not declared is unknown as long as it has that value. Other facts are read anew each time.
        """
        return self.hint

    def reading(self, given: str) -> str:
        """Return the reading for what is given for the fact."""
        return given

    def joined(self, other: Fact) -> Fact:
        """Return the fact as two rule sets see it together."""
        return self

    def held_by(self, values: frozenset[str]) -> tuple[str, ...]:
        """Return its values that are among some that a condition names, or are matched by one of those."""
        return tuple(each for each in self.values if holds(values, each))

    def written(self, values: frozenset[str]) -> tuple[str, ...]:
        """Write values as a condition has them, in their order."""
        return tuple(each for each in self.values if each in values)

    def held_with(self, value: str) -> tuple[str, ...]:
        """Return the values for which one value in a list is there."""
        return (value,)

    def needless(self, values: frozenset[str]) -> frozenset[str]:
        """Return values in a list that stand for nothing beside the others."""
        return frozenset()

    def shown(self, given: str) -> str:
        """Write what is given for the fact in a sentence."""
        return given

    def describe(self, readings: Collection[str]) -> tuple[str, ...]:
        """Write some of its readings for people, in their order."""
        return tuple(str(each) for each in self.readings if each in readings)


@dataclass(frozen=True, slots=True)
class LabelFact(Fact):
    """A label with its declared values, and `none` where it is not there. Any other value is unknown.

    It is the operator's to change, to whichever value does: `open_value` is only what a label has that is left out.
    """

    opened_by: LiftedBy | None = LiftedBy.OPERATOR
    action: str = EDIT_LABELS.name

    @property
    def stays_unknown(self) -> bool:
        """A caller that sends no labels never sends any, and a value that is not declared stays so."""
        return True

    def reading(self, given: str) -> str:
        """Return the value, or unknown where it is not declared."""
        return given if given in self.values else UNKNOWN

    def of_value(self, value: str) -> str:
        """Return what to give for a label that is there: its value, unless that is the word for one that is not."""
        return UNKNOWN if value == NO_LABEL else self.reading(value)

    def joined(self, other: Fact) -> Fact:
        """Return the label with the values of both."""
        return replace(self, values=tuple(dict.fromkeys((*self.values, *other.values))))


@dataclass(frozen=True, slots=True)
class NameFact(Fact):
    """A name, seen only through patterns. Its values are names that stand for the classes of all, one for each."""

    classes: NameClasses = field(default_factory=NameClasses)

    @property
    def stays_unknown(self) -> bool:
        """A caller that does not say for which agent it asks never does."""
        return True

    def of(self, classes: NameClasses) -> NameFact:
        """Return the fact as rules see it that can tell these classes apart."""
        members = tuple(classes.members.values())
        return replace(self, classes=classes, values=members)

    def reading(self, given: str) -> str:
        """Return the name that stands for all names of the class of the one that is given."""
        return UNKNOWN if given == UNKNOWN else self.classes.representative(given)

    def joined(self, other: Fact) -> Fact:
        """Return the name as those see it together who can each tell some classes apart.

        Raises:
            TooManyStates: the patterns of both are too many together.
            SinglesOutUnknown: they tell the name `unknown` apart from every other.
        """
        units = other.classes.units if isinstance(other, NameFact) else ()
        return self.of(name_classes((*self.classes.units, *units), self.open_value))

    def of_name(self, name: str) -> str:
        """Return what to give for a name that could be read: itself, unless it is the word for one that could not."""
        return self.classes.representative(name) if name == UNKNOWN and self.values else name

    def written(self, values: frozenset[str]) -> tuple[str, ...]:
        """Write names and patterns as a condition has them."""
        return tuple(each if each and each[0] not in "*?" else f'"{each}"' for each in sorted(values))

    def held_with(self, value: str) -> tuple[str, ...]:
        """Return the names that stand for the classes that a pattern makes, with those read wherever it is."""
        return self.classes.holding(value)

    def needless(self, values: frozenset[str]) -> frozenset[str]:
        """Return patterns of a list that match nothing which no other matches."""
        return needless_patterns(values)

    def shown(self, given: str) -> str:
        """Write a name in a sentence: it is somebody's own word."""
        return given if given == UNKNOWN else shown(given)

    def describe(self, readings: Collection[str]) -> tuple[str, ...]:
        """Write classes by the patterns that make them."""
        unknown = (UNKNOWN,) if UNKNOWN in readings else ()
        return (*self.classes.describe(readings), *unknown) if set(readings) - {UNKNOWN} else unknown


@dataclass(frozen=True, slots=True)
class Point:
    """One state of the facts of an axis, in words and as values."""

    label: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Axis:
    """Facts that vary together, and every state that they can be in.

    An axis that is `always` looked at stays whole, whichever of its facts rules read. `impossible` is a hint for facts
    that are in none of the states. `normalized` takes those facts of the axis that somebody wrote, and returns all of
    them; without it, what is written counts as it is, and a fact that is left out has its open value.
    """

    facts: tuple[str, ...]
    points: tuple[Point, ...]
    always: bool = False
    impossible: str = ""
    normalized: Callable[[Mapping[str, str]], Mapping[str, str]] | None = None

    def projected(self, read: Collection[str]) -> Axis:
        """Return the axis of those of its facts that are read: states that then look the same are one."""
        kept = [number for number, fact in enumerate(self.facts) if fact in read]
        if self.always or len(kept) == len(self.facts):
            return self
        states = dict.fromkeys(tuple(point.values[number] for number in kept) for point in self.points)
        points = tuple(Point(" ".join(state), state) for state in states)
        return replace(self, facts=tuple(self.facts[number] for number in kept), points=points)

    def has(self, facts: Mapping[str, str]) -> bool:
        """Say whether its facts can be together what they are."""
        state = tuple(facts[fact] for fact in self.facts)
        return any(point.values == state for point in self.points)


def axis_of(fact: Fact, *, always: bool = False) -> Axis:
    """Return the axis of a fact that varies by itself."""
    return Axis((fact.name,), tuple(Point(value, (value,)) for value in fact.readings), always=always)
