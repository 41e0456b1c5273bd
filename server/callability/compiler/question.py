"""A question that a rule set answers: its facts with their domains, its statuses, texts and actions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from callability.compiler.names import NameClasses, name_classes, needless_patterns
from callability.contract.finding import as_code
from callability.contract.vocabulary import EDIT_LABELS, UNKNOWN, Action, LiftedBy, Status
from callability.kernel.conditions import hold

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

    def join(self, other: Fact) -> Fact:
        """Return the fact with the distinctions of two rule sets."""
        return self

    def held_by(self, values: frozenset[str]) -> tuple[str, ...]:
        """Return its values that a condition names, or that a pattern in the condition matches."""
        return hold(values, self.values)

    def spell(self, values: frozenset[str]) -> tuple[str, ...]:
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

    def join(self, other: Fact) -> Fact:
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

    def join(self, other: Fact) -> Fact:
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

    def join(self, other: Fact) -> Fact:
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

    def spell(self, values: frozenset[str]) -> tuple[str, ...]:
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
        return given if given == UNKNOWN else as_code(given)

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

    def project(self, read: Collection[str]) -> Axis:
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


@dataclass(frozen=True, slots=True)
class Placeholder:
    """What the caller fills in a text; `statuses` where it has something to fill in for some alone."""

    name: str
    statuses: frozenset[str] | None = None

    def fits(self, status: str) -> bool:
        """Say whether it may stand in the words of a status."""
        return self.statuses is None or status in self.statuses


@dataclass(frozen=True, slots=True)
class Question:
    """Facts, statuses and texts of a question, and the status for what could not be determined.

    `wordless` are the statuses about which nothing has to be said, and `texts` the texts that the words of any other
    have, with their placeholders. With an `open_status` there is a path from any other status to it. `labels` are what
    a file may declare labels of, with the beginning of the names of their facts. `declares` is what it may declare
    facts of its own of. `owners_by_rule` are, for a status, those whose actions a rule's own words may name besides
    its `lifted_by`: a rule that decides may know more than its status says. `withholds` says for a combination of
    facts whether text from the upstream must be kept back (spec A.3), where the question is about such text.
    `operator_acts`: whatever the operator can do about a status is one of the actions, so that words for such a
    status that name none help nobody.
    """

    name: str
    facts: Mapping[str, Fact]
    axes: tuple[Axis, ...]
    statuses: tuple[Status, ...]
    undetermined: Status
    wordless: frozenset[str]
    texts: Mapping[str, tuple[Placeholder, ...]]
    actions: tuple[Action, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    declares: tuple[str, ...] = ()
    owners_by_rule: Mapping[str, frozenset[LiftedBy]] = field(default_factory=dict)
    open_status: str | None = None
    withholds: Callable[[Mapping[str, str]], bool] | None = None
    operator_acts: bool = True

    @property
    def open_facts(self) -> dict[str, str]:
        """Every fact at its default."""
        return {fact.name: fact.open_value for fact in self.facts.values()}

    def complete(self, written: Mapping[str, str]) -> dict[str, str]:
        """Return every fact, for those that somebody wrote: these as their axes normalize them, the others open."""
        facts = {**self.open_facts, **written}
        for axis in self.axes:
            mine = {name: written[name] for name in axis.facts if name in written} if axis.normalized else None
            if axis.normalized and mine:
                facts |= axis.normalized(mine)
        return facts

    def contradiction(self, facts: Mapping[str, str]) -> Axis | None:
        """Return the first axis whose facts cannot be together what they are; None: the facts can occur together."""
        together = (axis for axis in self.axes if len(axis.facts) > 1)
        return next((axis for axis in together if not axis.has(facts)), None)

    @property
    def shared_placeholders(self) -> tuple[Placeholder, ...]:
        """The placeholders of every text: those that the words of a rule, which join each of them, may hold."""
        first, *others = self.texts.values()
        return tuple(each for each in first if all(each in other for other in others))

    def having(self, facts: Iterable[Fact]) -> Question:
        """Return the question with independent facts added, and the actions that they declare; they replace facts of
        the same names.
        """
        having = facts_by_name(facts)
        axes = (axis for axis in self.axes if not having.keys() & axis.facts)
        declared = (fact.declared_action for fact in having.values() if isinstance(fact, DeclaredFact))
        actions = {action.name: action for action in (*self.actions, *filter(None, declared))}
        return replace(
            self,
            facts={**self.facts, **having},
            axes=(*axes, *map(axis_of, having.values())),
            actions=tuple(actions.values()),
        )

    def action(self, name: str) -> Action | None:
        """Return an action by its name; None if the question has no such action."""
        return next((action for action in self.actions if action.name == name), None)

    def describe(self, box: Mapping[str, Collection[str]]) -> dict[str, tuple[str, ...]]:
        """Describe the readings of facts for people; a fact that may have any reading is left out."""
        return {
            name: self.facts[name].describe(readings)
            for name, readings in box.items()
            if len(readings) < len(self.facts[name].readings)
        }

    def status(self, name: str) -> Status:
        """Return a status by its name."""
        return next(status for status in self.statuses if status == name)


def join_questions(one: Question, other: Question) -> Question:
    """Return the question of two rule files, with the distinctions of both.

    Raises:
        TooManyStates: the patterns of both are too many together.
        SinglesOutUnknown: they distinguish the name `unknown` from every other.
    """
    return one.having(
        one.facts[name].join(fact) if name in one.facts else fact
        for name, fact in other.facts.items()
        if fact != one.facts.get(name)
    )


def facts_by_name(facts: Iterable[Fact]) -> dict[str, Fact]:
    """Return facts by name, in their order."""
    return {fact.name: fact for fact in facts}
