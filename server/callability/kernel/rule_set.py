"""A rule set of a bundle: its facts, names, rules and diagram; it decides from points or from facts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from callability.bundle.v1 import bundle_pb2 as pb
from callability.contract.enum_words import LIFTED_BY
from callability.contract.finding import as_code
from callability.contract.vocabulary import UNKNOWN, LiftedBy, Retry
from callability.kernel.conditions import Condition, facts_read, is_glob, matches
from callability.kernel.envelope import invalid


class NameClasses:
    """Says to which of the classes of a fact a name belongs."""

    def __init__(self, groups: Iterable[pb.PatternGroup], classes: Mapping[tuple[int, ...], int]) -> None:
        self._exact: dict[str, list[int]] = {}
        self._globs: list[tuple[str, int]] = []
        for number, group in enumerate(groups):
            for pattern in group.patterns:
                if is_glob(pattern):
                    self._globs.append((pattern, number))
                else:
                    self._exact.setdefault(pattern, []).append(number)
        self._classes = classes

    def class_of(self, name: str) -> int:
        """Return the number of the class of a name of at most 512 bytes.

        Raises:
            BundleRefused: the bundle has no class for it, which none has that `callability` wrote.
        """
        groups = {number for glob, number in self._globs if matches(glob, name)}
        groups.update(self._exact.get(name, ()))
        try:
            return self._classes[tuple(sorted(groups))]
        except KeyError:
            raise invalid("the bundle has no class for a name") from None


_OWNERS = LIFTED_BY.members(LiftedBy)
_KINDS = frozenset(pb.FactKind.values()) - {0}
_SUBJECTS = frozenset(pb.FactSubject.values()) - {0}


@dataclass(frozen=True, slots=True)
class Fact:
    """An input with a finite list of values.

    A reading of it is a number: the place of a value, or the number of values if it is unknown. Of a name, the values
    represent the `classes` of names.
    """

    name: str
    kind: pb.FactKind.ValueType
    subject: pb.FactSubject.ValueType
    key: str
    values: tuple[str, ...]
    open_value: str
    asserted: bool
    hint: bool
    stays_unknown: bool
    opened_by: LiftedBy | None
    action: str
    opened_by_any_value: bool
    numbers: dict[str, int]
    classes: NameClasses | None

    @property
    def readings(self) -> int:
        """How many readings it has."""
        return len(self.values) + (not self.asserted)

    def reading(self, given: str) -> int:
        """Return the reading of a given value, of a name its class. One that is not listed is unknown."""
        if self.classes is not None and given != UNKNOWN:
            return self.classes.class_of(given)
        found = self.numbers.get(given)
        if found is None:
            return self.numbers[self.open_value] if self.asserted else len(self.values)
        return found

    def text(self, reading: int) -> str:
        """Return a reading in words: its value, or the word for an unknown one."""
        return self.values[reading] if reading < len(self.values) else UNKNOWN

    def of_name(self, name: str) -> str:
        """Return a readable name, even if it is spelled like the word for an unreadable one."""
        return self.values[self.classes.class_of(name)] if name == UNKNOWN and self.classes is not None else name

    def shown(self, given: str) -> str:
        """Return a given value as a sentence shows it: a name quoted, since somebody else chose it."""
        return as_code(given) if self.kind == pb.FACT_KIND_NAME and given != UNKNOWN else given


def fact_of(message: pb.Fact) -> Fact:
    """Return a fact of a bundle.

    Raises:
        BundleRefused: it contradicts itself.
    """
    values = tuple(message.values)
    numbers = {value: number for number, value in enumerate(values)}
    _check(message, len(numbers))
    return Fact(
        name=message.name,
        kind=message.kind,
        subject=message.subject,
        key=message.key,
        values=values,
        open_value=values[message.default_value] if values else "",
        asserted=message.asserted,
        hint=message.hint,
        stays_unknown=message.stays_unknown,
        opened_by=_OWNERS.get(message.changed_by),
        action=message.action,
        opened_by_any_value=message.any_value,
        numbers=numbers,
        classes=_classes(message) if message.kind == pb.FACT_KIND_NAME and values else None,
    )


def _check(message: pb.Fact, different: int) -> None:
    is_name = message.kind == pb.FACT_KIND_NAME
    keyed = message.kind in {pb.FACT_KIND_LABEL, pb.FACT_KIND_DECLARED}
    sound = (
        message.name
        and message.kind in _KINDS
        and message.subject in _SUBJECTS
        and bool(message.key) is keyed
        and different == len(message.values)
        and (message.default_value < different or (is_name and not different and not message.default_value))
        and len(message.name_classes) == (different if is_name else 0)
        and (is_name or not message.pattern_groups)
        and (not message.changed_by or message.changed_by in _OWNERS)
    )
    if not sound:
        raise invalid(f"fact {as_code(message.name)} contradicts itself")


def _classes(message: pb.Fact) -> NameClasses:
    groups = len(message.pattern_groups)
    classes: dict[tuple[int, ...], int] = {}
    for number, each in enumerate(message.name_classes):
        of_class = tuple(each.groups)
        if any(group >= groups for group in of_class):
            raise invalid(f"a class of {as_code(message.name)} names a group of patterns that does not exist")
        if any(group >= after for group, after in pairwise(of_class)):
            raise invalid(f"a class of {as_code(message.name)} names groups of patterns out of order")
        classes[of_class] = number
    if len(classes) != len(message.name_classes):
        raise invalid(f"two classes of {as_code(message.name)} are the same")
    return NameClasses(message.pattern_groups, classes)


@dataclass(frozen=True, slots=True)
class Status:
    """A status and its fixed properties; `number` is that of the contract. The last three are about enables."""

    name: str
    number: int
    lifted_by: LiftedBy
    retry: Retry
    error: bool
    entry: int
    tools_changed: int


@dataclass(frozen=True, slots=True)
class Words:
    """Templates by the name of the text, and the rule that they belong to; empty: they are those of the status."""

    rule: str
    texts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Rule:
    """A condition and the status that it gives; without a condition it always holds. Its place is line and column."""

    id: str
    when: Condition | None
    status: str
    line: int
    column: int
    words: Words | None

    @property
    def reads(self) -> tuple[str, ...]:
        """The facts that its condition reads, in the order of the text."""
        return facts_read(self.when) if self.when else ()


@dataclass(frozen=True, slots=True)
class Law:
    """A statement that was proved of the statuses wherever its condition holds."""

    name: str
    when: Condition | None
    statuses: tuple[str, ...]
    always: bool
    line: int
    column: int


@dataclass(frozen=True, slots=True, eq=False)
class Verdict:
    """An answer: a status, the rule that gave it or was reached undetermined, and what to say about it.

    `withhold_text`: text of the upstream must neither be shown nor searched. There is one object for each verdict of a
    rule set.
    """

    status: Status
    rule: str
    undetermined: bool
    withhold_text: bool
    words: Words | None


@dataclass(frozen=True, slots=True)
class Counts:
    """What was proved and tested when the bundle was built."""

    combinations: int
    regions: int
    witnesses: int
    confirmed_regions: int
    tests: int
    laws: int


Points = Sequence[int]
"""For each axis, in the order in which they are tested, the number of its point."""


def nodes_of(diagram: pb.Diagram, results: Sequence[Any], points: Sequence[int]) -> list[Any]:
    """Return what each number stands for: a result, or the place of an axis and what each of its points leads to.

    `points` is how many points each axis has. It raises unless every number is in its range.

    Raises:
        BundleRefused: an array has a wrong length, or a number is out of range.
    """
    found: list[Any] = list(results)
    children = tuple(diagram.children)
    places = tuple(diagram.places)
    start = 0
    count = len(results)
    for number, place in enumerate(places):
        if place >= len(points):
            raise invalid("a node of a diagram tests an axis that does not exist")
        mine = children[start : start + points[place]]
        start += points[place]
        if len(mine) != points[place]:
            raise invalid("a diagram has too few children")
        for child in dict.fromkeys(mine):
            if child >= count + number:
                raise invalid("a node of a diagram has a child that does not come before it")
            if child >= count and places[child - count] <= place:
                raise invalid("a diagram tests an axis out of order")
        found.append((place, tuple([found[child] for child in mine])))
    if start != len(children):
        raise invalid("a diagram has too many children")
    return found


def walk(first: Any) -> Callable[[Points], Any]:
    """Return what goes from a node to the result at some points."""

    def result(points: Points) -> Any:
        node = first
        while type(node) is tuple:
            place, children = node
            node = children[points[place]]
        return node

    return result


@dataclass(frozen=True, slots=True)
class Axis:
    """Facts that vary together. `points` has for their readings the number of the first point that has them."""

    facts: tuple[Fact, ...]
    points: Mapping[tuple[int, ...], int]
    size: int

    def point(self, facts: Mapping[str, str]) -> int:
        """Return the number of the point of some facts, by name.

        Raises:
            KeyError: a fact is missing, or the facts cannot occur together.
        """
        return self.points[tuple([fact.reading(facts[fact.name]) for fact in self.facts])]


@dataclass(frozen=True, slots=True)
class Question:
    """What a rule set answers."""

    name: str
    facts: Mapping[str, Fact]
    statuses: tuple[Status, ...]
    undetermined: str
    open_status: str | None


@dataclass(frozen=True, slots=True)
class RuleSet:
    """A rule set. It is never changed, and threads may share it.

    `decide` returns the verdict at the points of the axes, in the order of `axes`. It does not check them: a point is a
    number that `points_of` returned, or that an `Axis` has. `facts` are those of the axes, as explanations list them.
    `first` is the first node of the diagram, which has so many `inner_nodes`.
    """

    question: Question
    axes: tuple[Axis, ...]
    rules: tuple[Rule, ...]
    laws: tuple[Law, ...]
    status_words: Mapping[str, Words]
    verdicts: tuple[Verdict, ...]
    counts: Counts
    first: Any
    inner_nodes: int
    decide: Callable[[Points], Verdict]
    facts: tuple[str, ...]
    unread_of_rule: Mapping[str, tuple[tuple[str, Callable[[Points], bool]], ...]]

    @property
    def conditions(self) -> tuple[Condition | None, ...]:
        """The conditions of the rules, in order."""
        return tuple(rule.when for rule in self.rules)

    def points_of(self, facts: Mapping[str, str]) -> tuple[int, ...]:
        """Return the points of some facts by name: of a name or a label, what was read is given.

        Raises:
            KeyError: a fact of an axis is missing, or the facts cannot occur together.
            BundleRefused: the bundle contradicts itself about a name.
        """
        return tuple([axis.point(facts) for axis in self.axes])

    def unread(self, verdict: Verdict, points: Points) -> tuple[str, ...]:
        """Return the unknown facts that keep a verdict undetermined, in the order of the facts; none if it is not."""
        if not verdict.undetermined:
            return ()
        return tuple(fact for fact, is_unread in self.unread_of_rule[verdict.rule] if is_unread(points))

    def unread_at(self, facts: Mapping[str, str]) -> tuple[str, ...]:
        """Return the unknown facts that keep the verdict for some facts undetermined, in the order of the facts.

        Raises:
            KeyError: a fact of an axis is missing, or the facts cannot occur together.
        """
        points = self.points_of(facts)
        return self.unread(self.decide(points), points)

    def facts_of_axis(self, number: int) -> tuple[str, ...]:
        """Return the names of the facts of an axis."""
        return tuple(fact.name for fact in self.axes[number].facts)

    def points_of_axis(self, number: int) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Return the points of an axis in order, each with the readings of its facts; of equal ones the first."""
        axis = self.axes[number]
        for readings, point in axis.points.items():
            yield point, tuple(fact.text(reading) for fact, reading in zip(axis.facts, readings, strict=True))

    def reading(self, fact: str, given: str) -> str:
        """Return the reading of a given value of a fact: of a name, what represents its class."""
        found = self.question.facts[fact]
        return found.text(found.reading(given))
