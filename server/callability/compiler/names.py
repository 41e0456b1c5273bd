"""Classes of names that conditions can distinguish: conditions see a name only through patterns.

An automaton follows all patterns at once, so that no set of patterns that some name matches is missed, and none is
reported that no name matches. One name represents each class.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from operator import or_
from string import ascii_lowercase, ascii_uppercase, digits, punctuation

from callability.contract.vocabulary import UNKNOWN
from callability.kernel.conditions import holds, is_glob

MAX_STATES = 20_000
"""States that the patterns of one fact may have together."""
NAME_BYTES = 512
"""The maximum of bytes in a name, as in the contract."""

_PLAIN = ascii_lowercase + digits + ascii_uppercase + "".join(sorted({*punctuation} - {*"*?"})) + "?"
"""Characters of one byte, the plainest first. In a pattern, the last is a wildcard, so that one is always left."""
Unit = frozenset[str]
"""Names and patterns that always occur in the same lists."""


class TooManyStates(Exception):
    """Patterns that have more states together than `MAX_STATES`."""

    def __init__(self) -> None:
        super().__init__(f"{MAX_STATES:,}")


def shortest_names(units: Sequence[Unit], *, empty: bool) -> Iterator[tuple[frozenset[int], str]]:
    """Yield for each state of the patterns the units that hold there, by their numbers, and the shortest name that
    leads to it, in bytes; `empty`: a name may be that too.

    Raises:
        TooManyStates: there are more than `MAX_STATES`.
    """
    automaton = _Automaton(units)
    # The bytes of the shortest name that leads to a state. Unless a name may be empty, none has led to the start yet;
    # patterns that begin with a star lead back to it.
    reached = {automaton.start: 0} if empty else {}
    waiting = defaultdict(list, {0: [(automaton.start, "")]})
    for size in range(NAME_BYTES + 1):
        for state, name in waiting.pop(size, ()):
            if name or empty:
                if reached[state] < size:
                    continue
                yield automaton.holding(state), name
            for character in automaton.characters(state):
                after, longer = automaton.step(state, character), size + len(character.encode())
                if longer < reached.get(after, NAME_BYTES + 1):
                    reached[after] = longer
                    if len(reached) > MAX_STATES:
                        raise TooManyStates
                    waiting[longer].append((after, name + character))


class _Automaton:
    """Follows all patterns of some units at once.

    A state is a number with a bit for each place that a pattern may be at: before each of its characters, and behind
    the last.
    """

    def __init__(self, units: Iterable[Unit]) -> None:
        self._literals: dict[str, int] = {}
        self._read: dict[int, str] = {}
        self._any = self._stars = start = place = 0
        self._ends: list[int] = []
        for unit in units:
            ends = 0
            for pattern in sorted(unit):
                start |= 1 << place
                place = self._add(pattern, place)
                ends |= 1 << place
                place += 1
            self._ends.append(ends)
        self._every_end = reduce(or_, self._ends, 0)
        self._order = {character: number for number, character in enumerate(self._literals)}
        # To the patterns, all characters that stand in none of them are the same; no other of them has fewer bytes.
        self._other = next(each for each in _PLAIN if each not in self._literals)
        self.start = self._close(start)

    def _add(self, pattern: str, place: int) -> int:
        """Add a pattern whose first character is at a place, and return the place behind the last."""
        before = ""
        for character in pattern:
            if character == before == "*":
                continue
            if character == "*":
                self._stars |= 1 << place
            elif character == "?":
                self._any |= 1 << place
            else:
                self._literals[character] = self._literals.get(character, 0) | 1 << place
                self._read[place] = character
            before = character
            place += 1
        return place

    def characters(self, state: int) -> Iterator[str]:
        """Yield the characters that lead on from a state, one for all that stand in no pattern."""
        yield self._other
        # Names are at few places at a time, and patterns with stars at many: the fewer of both are looked at.
        if state.bit_count() < len(self._literals):
            read = {self._read[place] for place in _places(state) if place in self._read}
            yield from sorted(read, key=self._order.__getitem__)
        else:
            yield from (character for character, places in self._literals.items() if state & places)

    def step(self, state: int, character: str) -> int:
        """Return the state behind a character."""
        read = state & (self._literals.get(character, 0) | self._any)
        return self._close(read << 1 | state & self._stars)

    def holding(self, state: int) -> frozenset[int]:
        """Return the units of which a pattern matches what was read."""
        if not state & self._every_end:
            return frozenset()
        return frozenset(number for number, ends in enumerate(self._ends) if state & ends)

    def _close(self, state: int) -> int:
        """Return a state with the places behind the stars that it is at, which may stand for nothing."""
        return state | (state & self._stars) << 1


def _places(state: int) -> Iterator[int]:
    """Yield the places of a state."""
    while state:
        lowest = state & -state
        yield lowest.bit_length() - 1
        state ^= lowest


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
    def _matches(self) -> tuple[frozenset[Class], ...]:
        """The classes that each unit matches."""
        return tuple(frozenset(each for each in self.members if number in each) for number in range(len(self.units)))

    def _covering(self, wanted: frozenset[Class]) -> list[Unit]:
        """Return units that match these classes and no others; an empty list if there are none."""
        matched = self._matches
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
