"""Classes of names that conditions can distinguish: conditions see a name only through patterns.

One name represents each class, so that a combination of facts is always a concrete one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from callability.kernel.glob import holds, is_glob
from callability.policy.names.automaton import TooManyStates, Unit, shortest_names
from callability.vocabulary import UNKNOWN

MAX_LISTED = 4
"""Patterns of one unit that a description names."""

Class = frozenset[int]
"""The numbers of the units that match the names of a class."""


class SinglesOutUnknown(Exception):
    """Patterns that distinguish the name `unknown`, which stands for an unreadable name, from every other."""


@dataclass(frozen=True)
class NameClasses:
    """The patterns of some lists, in units that always occur together, and the representative name of each class."""

    units: tuple[Unit, ...] = ()
    members: Mapping[Class, str] = field(default_factory=dict)

    def representative(self, name: str) -> str:
        """Return the representative of the class of a name."""
        return self.members[_class_of(name, self.units)]

    def holding(self, pattern: str) -> tuple[str, ...]:
        """Return the representatives of the classes that a pattern, or another of its unit, matches."""
        numbers = {number for number, unit in enumerate(self.units) if pattern in unit}
        return tuple(name for each, name in self.members.items() if each & numbers)

    def describe(self, names: Collection[str]) -> tuple[str, ...]:
        """Describe a set of classes, given by representatives: by patterns that match it, or by those that do not."""
        cover = self.cover(names)
        if cover is None:
            return tuple(map(self._describe_class, self.numbers(names)))
        units, complement = cover
        return (f"other than {_patterns_of(units)}",) if complement else tuple(_patterns_of((each,)) for each in units)

    def numbers(self, names: Collection[str]) -> tuple[Class, ...]:
        """Return the classes with these representatives."""
        return tuple(each for each, name in self.members.items() if name in names)

    def cover(self, names: Collection[str]) -> tuple[tuple[Unit, ...], bool] | None:
        """Return units that match some classes, given by their representatives, and no other class.

        With True, the units match exactly the other classes. None: there are no such units.
        """
        wanted = frozenset(self.numbers(frozenset(names)))
        if covering := self._covering(wanted):
            return tuple(covering), False
        others = self._covering(frozenset(self.members) - wanted)
        return (tuple(others), True) if others else None

    @cached_property
    def _matched(self) -> tuple[frozenset[Class], ...]:
        """The classes that each unit matches."""
        return tuple(frozenset(each for each in self.members if number in each) for number in range(len(self.units)))

    def _covering(self, wanted: frozenset[Class]) -> list[Unit]:
        """Return units that match these classes and no others; an empty list if there are none."""
        matched = self._matched
        inside = [number for number, classes in enumerate(matched) if classes <= wanted]
        left, chosen = wanted, []
        for number in sorted(inside, key=lambda number: -len(matched[number])):
            if matched[number] & left:
                chosen.append(number)
                left -= matched[number]
        return [] if left else [self.units[number] for number in sorted(chosen)]

    def _describe_class(self, one: Class) -> str:
        if not one:
            return "any other"
        text = ", and ".join(_patterns_of((self.units[number],)) for number in sorted(one))
        narrower = {number for other in self.members if other > one for number in other - one}
        if not narrower:
            return text
        return f"{text}, but not {_patterns_of(self.units[number] for number in sorted(narrower))}"


def name_classes(lists: Iterable[frozenset[str]], open_name: str) -> NameClasses:
    """Return the classes of names that lists of names and patterns can distinguish.

    `open_name` represents its own class, and the shortest name every other. A name may be empty if `open_name` is.

    Raises:
        TooManyStates: the patterns are too many, or too tangled.
        SinglesOutUnknown: a class is the name `unknown` and no other.
    """
    units = units_of(lists)
    members = {_class_of(open_name, units): open_name}
    # With a unit of its own, `unknown` leads to states to which no other name leads.
    own = len(units)
    for found, name in shortest_names([*units, frozenset((UNKNOWN,))], empty=not open_name):
        if own not in found:
            members.setdefault(found, name)
    if _class_of(UNKNOWN, units) not in members:
        raise SinglesOutUnknown
    return NameClasses(units, members)


def units_of(lists: Iterable[frozenset[str]]) -> tuple[Unit, ...]:
    """Return the names and patterns of some lists; those that occur in the same lists form one unit."""
    where: dict[str, list[int]] = {}
    for number, patterns in enumerate(dict.fromkeys(lists)):
        for pattern in sorted(patterns):
            where.setdefault(pattern, []).append(number)
    together: dict[tuple[int, ...], list[str]] = {}
    for pattern, numbers in where.items():
        together.setdefault(tuple(numbers), []).append(pattern)
    return tuple(map(frozenset, together.values()))


def needless_patterns(patterns: frozenset[str]) -> frozenset[str]:
    """Return the patterns that match only names that other patterns match too; none if there are too many states."""
    if not any(map(is_glob, patterns)):
        return frozenset()
    each = sorted(patterns)
    try:
        found = {units for units, _ in shortest_names([frozenset((one,)) for one in each], empty=True)}
    except TooManyStates:
        return frozenset()
    return frozenset(pattern for number, pattern in enumerate(each) if frozenset((number,)) not in found)


def _class_of(name: str, units: Sequence[Unit]) -> Class:
    return frozenset(number for number, unit in enumerate(units) if holds(unit, name))


def _patterns_of(units: Iterable[Unit]) -> str:
    patterns = [pattern or '""' for unit in units for pattern in sorted(unit)]
    if len(patterns) > MAX_LISTED:
        patterns = [*patterns[:MAX_LISTED], f"{len(patterns) - MAX_LISTED} more"]
    return " or ".join(patterns)
