"""Facts, their domains, and the states that they can have together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from callability.finding import shown
from callability.kernel.glob import held
from callability.policy.names.classes import NameClasses, name_classes, needless_patterns
from callability.vocabulary import EDIT_LABELS, NO_LABEL, UNKNOWN, Action, LiftedBy

BOOLEAN = ("true", "false")


@dataclass(frozen=True, slots=True)
class Fact:
    """A typed input with a finite domain.

    `open_value` is its default, which locks nothing: a test that leaves the fact out uses it, and a path to callable
    changes the fact to it, by `opened_by` (None: nobody can change it) and `action`. An `asserted` fact is never
    unknown: it has its default unless somebody says otherwise. A `hint` is a claim of the upstream server.
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
        """Its values, and `unknown` if it can be unknown."""
        return self.values if self.asserted else (*self.values, UNKNOWN)

    @property
    def stays_unknown(self) -> bool:
        """Whether the fact, once unknown, stays unknown until a person changes something: no later try can read it.

        The annotations of a tool are sent always or never by a caller, and so are labels and the name of the agent. A
        label whose value is not declared is unknown as long as it has that value. Other facts are read again each time.
        """
        return self.hint

    @property
    def opened_by_any_value(self) -> bool:
        """Whether a path changes it to each value that helps, and not to its default alone."""
        return False

    def reading(self, given: str) -> str:
        """Return the reading of a given value."""
        return given

    def joined(self, other: Fact) -> Fact:
        """Return the fact with the distinctions of two rule sets."""
        return self

    def held_by(self, values: frozenset[str]) -> tuple[str, ...]:
        """Return its values that a condition names, or that a pattern in the condition matches."""
        return held(values, self.values)

    def written(self, values: frozenset[str]) -> tuple[str, ...]:
        """Return values as a condition spells them, in their order."""
        return tuple(each for each in self.values if each in values)

    def held_with(self, value: str) -> tuple[str, ...]:
        """Return the values that one entry of a list stands for."""
        return (value,)

    def needless(self, values: frozenset[str]) -> frozenset[str]:
        """Return the values in a list that add nothing to the others."""
        return frozenset()

    def shown(self, given: str) -> str:
        """Return a given value as a sentence shows it."""
        return given

    def describe(self, readings: Collection[str]) -> tuple[str, ...]:
        """Describe some of its readings for people, in their order."""
        return tuple(str(each) for each in self.readings if each in readings)


@dataclass(frozen=True, slots=True)
class LabelFact(Fact):
    """A label with its declared values, and `none` if it is absent. Any other value is unknown.

    The operator can change it to any value; `open_value` is only the default of a label that is left out.
    """

    opened_by: LiftedBy | None = LiftedBy.OPERATOR
    action: str = EDIT_LABELS.name

    @property
    def stays_unknown(self) -> bool:
        """A caller that sends no labels never sends any, and a value that is not declared stays so."""
        return True

    @property
    def opened_by_any_value(self) -> bool:
        """The operator gives it whichever value helps."""
        return True

    def reading(self, given: str) -> str:
        """Return the value, or unknown if it is not declared."""
        return given if given in self.values else UNKNOWN

    def of_value(self, value: str) -> str:
        """Return the reading of a label that is present: unknown if its value is the word for an absent one."""
        return UNKNOWN if value == NO_LABEL else self.reading(value)

    def joined(self, other: Fact) -> Fact:
        """Return the label with the values of both."""
        return replace(self, values=tuple(dict.fromkeys((*self.values, *other.values))))


@dataclass(frozen=True, slots=True)
class DeclaredFact(Fact):
    """A fact that a rule file declares `of` a server, a tool or an agent, with its action's neutral `phrase`.

    A fact that is not sent is unknown, and so is a value that is not declared. An asserted fact has its default then,
    which locks: its owner can change it to any other value. The owner of any other fact changes it to its default.
    """

    of: str = "server"
    phrase: str = ""

    @property
    def opened_by_any_value(self) -> bool:
        """The default of an asserted fact locks, so any other value may help."""
        return self.asserted

    @property
    def declared_action(self) -> Action | None:
        """The action that changes it."""
        return Action(self.action, self.opened_by, self.name, self.phrase) if self.opened_by and self.action else None

    def reading(self, given: str) -> str:
        """Return the value; one that is unknown or not declared is unknown, or the default of an asserted fact."""
        return given if given in self.values else self.open_value if self.asserted else UNKNOWN

    def joined(self, other: Fact) -> Fact:
        """Return the fact with the values of both; it can be unknown if either can, or reads that as another value."""
        values = tuple(dict.fromkeys((*self.values, *other.values)))
        is_asserted = self.asserted and other.asserted and self.open_value == other.open_value
        return replace(self, values=values, asserted=is_asserted)


@dataclass(frozen=True, slots=True)
class NameFact(Fact):
    """A name, seen only through patterns. Its values are the representatives of the classes of names."""

    classes: NameClasses = field(default_factory=NameClasses)

    @property
    def stays_unknown(self) -> bool:
        """A caller that does not say for which agent it asks never does."""
        return True

    def of(self, classes: NameClasses) -> NameFact:
        """Return the fact as seen by rules that distinguish these classes."""
        members = tuple(classes.members.values())
        return replace(self, classes=classes, values=members)

    def reading(self, given: str) -> str:
        """Return the representative of the class of a name."""
        return UNKNOWN if given == UNKNOWN else self.classes.representative(given)

    def joined(self, other: Fact) -> Fact:
        """Return the fact with the classes that either of two facts distinguishes.

        Raises:
            TooManyStates: the patterns of both are too many together.
            SinglesOutUnknown: they distinguish the name `unknown` from every other.
        """
        units = other.classes.units if isinstance(other, NameFact) else ()
        return self.of(name_classes((*self.classes.units, *units), self.open_value))

    def of_name(self, name: str) -> str:
        """Return the reading of a readable name, even if it is spelled like the word for an unreadable one."""
        return self.classes.representative(name) if name == UNKNOWN and self.values else name

    def is_unmatched(self, given: str) -> bool:
        """Say whether a given name is readable, and no name or pattern of the rules matches it."""
        return given != UNKNOWN and not any(self.classes.numbers((self.reading(given),)))

    def written(self, values: frozenset[str]) -> tuple[str, ...]:
        """Return names and patterns as a condition spells them."""
        return tuple(each if each and each[0] not in "*?" else f'"{each}"' for each in sorted(values))

    def held_with(self, value: str) -> tuple[str, ...]:
        """Return the representatives of the classes that a pattern matches."""
        return self.classes.holding(value)

    def needless(self, values: frozenset[str]) -> frozenset[str]:
        """Return the patterns of a list that match only what others match too."""
        return needless_patterns(values)

    def shown(self, given: str) -> str:
        """Return a name as a sentence shows it: quoted, since somebody else chose it."""
        return given if given == UNKNOWN else shown(given)

    def describe(self, readings: Collection[str]) -> tuple[str, ...]:
        """Describe classes by their patterns."""
        unknown = (UNKNOWN,) if UNKNOWN in readings else ()
        return (*self.classes.describe(readings), *unknown) if set(readings) - {UNKNOWN} else unknown


@dataclass(frozen=True, slots=True)
class Point:
    """One state of the facts of an axis: its label and its values."""

    label: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Axis:
    """Facts that vary together, and every state that they can have.

    An axis that is `always` included stays whole, even if rules read only some of its facts. `impossible` is the hint
    for facts that have none of the states. `normalized` takes the facts of the axis that are given, and returns all of
    them; without it, given values are used unchanged, and a fact that is left out has its default.
    """

    facts: tuple[str, ...]
    points: tuple[Point, ...]
    always: bool = False
    impossible: str = ""
    normalized: Callable[[Mapping[str, str]], Mapping[str, str]] | None = None

    def projected(self, read: Collection[str]) -> Axis:
        """Return the axis of the facts that are read; states that are then equal become one."""
        kept = [number for number, fact in enumerate(self.facts) if fact in read]
        if self.always or len(kept) == len(self.facts):
            return self
        states = dict.fromkeys(tuple(point.values[number] for number in kept) for point in self.points)
        points = tuple(Point(" ".join(state), state) for state in states)
        return replace(self, facts=tuple(self.facts[number] for number in kept), points=points)

    def has(self, facts: Mapping[str, str]) -> bool:
        """Return whether its facts can occur together."""
        state = tuple(facts[fact] for fact in self.facts)
        return any(point.values == state for point in self.points)


def axis_of(fact: Fact, *, always: bool = False) -> Axis:
    """Return the axis of a fact that varies by itself."""
    return Axis((fact.name,), tuple(Point(value, (value,)) for value in fact.readings), always=always)
