"""Which patterns can match the same name: an automaton follows all patterns at once, shortest names first.

So no set of patterns that some name matches is missed, and none is reported that no name matches.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from operator import or_
from string import ascii_lowercase, ascii_uppercase, digits, punctuation

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
        self.start = self._closed(start)

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
        return self._closed(read << 1 | state & self._stars)

    def holding(self, state: int) -> frozenset[int]:
        """Return the units of which a pattern matches what was read."""
        if not state & self._every_end:
            return frozenset()
        return frozenset(number for number, ends in enumerate(self._ends) if state & ends)

    def _closed(self, state: int) -> int:
        """Return a state with the places behind the stars that it is at, which may stand for nothing."""
        return state | (state & self._stars) << 1


def _places(state: int) -> Iterator[int]:
    """Yield the places of a state."""
    while state:
        lowest = state & -state
        yield lowest.bit_length() - 1
        state ^= lowest
