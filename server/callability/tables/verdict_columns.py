"""From codes of facts to verdicts, row by row along the decision diagram, and from verdicts to columns of Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from callability.bundle.v1 import bundle_pb2 as pb
from callability.contract.enum_words import LIFTED_BY, RETRY
from callability.kernel.facts import HINT_DEFAULTS, READS_ONLY
from callability.tables.fact_column import Codes, ColumnClasses, number_of_codes

READ_ONLY = "annotations.read_only"
_FIXED = dict(zip(HINT_DEFAULTS, READS_ONLY, strict=True))
"""What the annotations that depend on each other are for a tool that only reads (spec A.2)."""


def sources(axis: pb.Axis, facts: Sequence[pb.Fact]) -> tuple[int, ...]:
    """Return the facts from which the point of an axis follows: its own, and what gives them their meaning."""
    mine = tuple(axis.facts)
    if any(facts[each].name in _FIXED for each in mine):
        read_only = next(number for number, fact in enumerate(facts) if fact.name == READ_ONLY)
        return tuple(dict.fromkeys((*mine, read_only)))
    return mine


def points(axis: pb.Axis, facts: Sequence[pb.Fact]) -> NDArray[np.int32]:
    """Return the point of an axis for each combination of the codes of its sources, as an array of that shape.

    Readings that cannot occur together are unknown, unless those that are known leave one point: an approval without a
    record has not disabled the tool.
    """
    read = sources(axis, facts)
    width = len(axis.facts)
    states: dict[tuple[int, ...], int] = {}
    for point in range(len(axis.readings) // width):
        states.setdefault(tuple(axis.readings[point * width : (point + 1) * width]), point)
    found = np.zeros([number_of_codes(facts[each]) for each in read], np.int32)
    for codes in product(*(range(length) for length in found.shape)):
        readings = dict(zip(read, codes, strict=True))
        normalized = _normalize(axis, facts, readings)
        found[codes] = _point(states, normalized, [len(facts[each].values) for each in axis.facts])
    return found


def _normalize(axis: pb.Axis, facts: Sequence[pb.Fact], readings: Mapping[int, int]) -> tuple[int, ...]:
    names = {facts[number].name: number for number in readings}
    if READ_ONLY in names and names.keys() <= _FIXED.keys():
        read_only = facts[names[READ_ONLY]]
        if readings[names[READ_ONLY]] == list(read_only.values).index("true"):
            return tuple(list(facts[each].values).index(_FIXED[facts[each].name]) for each in axis.facts)
        if any(reading == len(facts[number].values) for number, reading in readings.items()):
            return tuple(len(facts[each].values) for each in axis.facts)
    return tuple(readings[each] for each in axis.facts)


def _point(states: Mapping[tuple[int, ...], int], readings: tuple[int, ...], unknown: Sequence[int]) -> int:
    if readings in states:
        return states[readings]
    if len(readings) == 1:
        raise LookupError(f"no point of an axis has the reading {readings[0]} of its fact")
    fitting = [
        point
        for state, point in states.items()
        if all(mine in {none, its} for mine, its, none in zip(readings, state, unknown, strict=True))
        and all(its != none for its, none in zip(state, unknown, strict=True))
    ]
    return fitting[0] if len(fitting) == 1 else states[tuple(unknown)]


MAX_ENTRIES = 1 << 16
"""Entries of one table, unless a single axis needs more: what fits into a core's cache is looked up fastest."""


@dataclass(frozen=True, slots=True)
class DiagramStep:
    """A table that tests some axes at once.

    `facts` are the facts whose codes it reads, each with the number of its codes. The entry of a state and of codes is
    at the state's place, with the codes as further digits.
    """

    facts: tuple[tuple[int, int], ...]
    width: int
    table: NDArray[np.int32]

    def follow(self, states: NDArray[np.int32] | None, codes: Mapping[int, Codes | int]) -> NDArray[np.int32]:
        """Return the next state of each row; without states, every row is at the first."""
        places = np.zeros((), np.intp) if states is None else states.astype(np.intp)
        for fact, number in self.facts:
            places = np.add(places * number, codes[fact], dtype=np.intp)
        found: NDArray[np.int32] = np.take(self.table, places, mode="clip")
        return found


@dataclass(frozen=True, slots=True)
class Walk:
    """Steps from where rows start to results. `starts` has the state of each possible start."""

    starts: NDArray[np.int32]
    steps: tuple[DiagramStep, ...]
    results: NDArray[np.intp]

    def follow(self, start: NDArray[np.intp] | None, codes: Mapping[int, Codes | int]) -> NDArray[np.intp]:
        """Return the result of each row, from the numbers of its starts; without them, from the first."""
        states = None if start is None else self.starts[start]
        for step in self.steps:
            states = step.follow(states, codes)
        found: NDArray[np.intp] = np.take(
            self.results, np.zeros((), np.intp) if states is None else states, mode="clip"
        )
        return found


def walk_of(
    diagram: pb.Diagram, axes: Sequence[pb.Axis], facts: Sequence[pb.Fact], starts: Sequence[int], results: int
) -> Walk:
    """Return the walk through a diagram from some of its numbers; a number below `results` is one."""
    nodes = _Nodes(diagram, axes, facts, results)
    current = np.array(sorted(set(starts)), np.int64)
    first = np.searchsorted(current, np.array(starts, np.int64)).astype(np.int32)
    steps: list[DiagramStep] = []
    place = 0
    while place < len(axes):
        end = place + 1
        if not (nodes.tested[current] == place).any():
            # No node that a row can have reached tests this axis.
            place = end
            continue
        while end < len(axes) and len(current) * nodes.width(place, end + 1) <= MAX_ENTRIES:
            end += 1
        following = nodes.after(current, place, end)
        current, table = np.unique(following, return_inverse=True)
        read = nodes.sources(place, end)
        steps.append(DiagramStep(read, nodes.width(place, end), table.reshape(-1).astype(np.int32)))
        place = end
    return Walk(first, tuple(steps), current.astype(np.intp))


class _Nodes:
    """The nodes of a diagram, and what their axes read."""

    def __init__(self, diagram: pb.Diagram, axes: Sequence[pb.Axis], facts: Sequence[pb.Fact], results: int) -> None:
        self._facts = facts
        self._axes = axes
        self._points = [points(axis, facts) for axis in axes]
        self._sources = [sources(axis, facts) for axis in axes]
        sizes = np.array([len(axis.readings) // len(axis.facts) for axis in axes], np.int64)
        places = np.array(diagram.places, np.int64)
        # A result tests no axis.
        self.tested = np.concatenate((np.full(results, len(axes), np.int64), places))
        lengths = sizes[places]
        self._offsets = np.concatenate((np.zeros(results, np.int64), np.cumsum(lengths) - lengths))
        self._children = np.array(diagram.children, np.int64)

    def sources(self, place: int, end: int) -> tuple[tuple[int, int], ...]:
        """Return the facts that some axes read, each with the number of its codes."""
        read = dict.fromkeys(each for sources in self._sources[place:end] for each in sources)
        return tuple((fact, number_of_codes(self._facts[fact])) for fact in read)

    def width(self, place: int, end: int) -> int:
        """Return how many combinations of codes some axes have."""
        return int(np.prod([number for _, number in self.sources(place, end)], dtype=object))

    def after(self, current: NDArray[np.int64], place: int, end: int) -> NDArray[np.int64]:
        """Return where each of some nodes leads by some axes: an array with an axis for the codes of each source."""
        read = [fact for fact, _ in self.sources(place, end)]
        nodes = current.reshape(-1, *[1] * len(read))
        for axis in range(place, end):
            found = self._points[axis]
            # The codes of the axis's own sources, at their places among those of all.
            order = sorted(range(found.ndim), key=lambda number: read.index(self._sources[axis][number]))
            shape = [1] * len(read)
            for number in order:
                shape[read.index(self._sources[axis][number])] = found.shape[number]
            point = found.transpose(order).reshape(1, *shape).astype(np.int64)
            tests = self.tested[nodes] == axis
            at = np.where(tests, self._offsets[nodes] + point, 0)
            nodes = np.where(tests, self._children[at] if len(self._children) else nodes, nodes)
        return np.broadcast_to(nodes, (len(current), *(number for _, number in self.sources(place, end)))).reshape(-1)


Answers = NDArray[Any]
"""Integers of 64 bits, or Python's for a rule set whose answers have more."""
MAX_BITS = 62
"""Bits of an answer that fit an array of integers."""


class RuleColumns:
    """A rule set over columns of codes.

    An *answer* is the number of a verdict with a bit below it for each fact that its rule may leave unread.
    """

    def __init__(self, rule_set: pb.RuleSet) -> None:
        self.rule_set = rule_set
        facts, axes, verdicts = rule_set.facts, rule_set.axes, len(rule_set.verdicts)
        self.facts = tuple(sorted({fact for axis in axes for fact in sources(axis, facts)}))
        self.names = {
            place: ColumnClasses(facts[place]) for place in self.facts if facts[place].kind == pb.FACT_KIND_NAME
        }
        """The classes of each fact that is a name."""
        nodes = len(rule_set.diagram.places)
        self._walk = walk_of(rule_set.diagram, axes, facts, [verdicts + nodes - 1 if nodes else 0], verdicts)
        self.unread = _unread_of(rule_set)
        """For each verdict the facts that may be unread, each with where to start in the diagram of unread facts."""
        self.slots = max(map(len, self.unread), default=0)
        bits = verdicts.bit_length() + self.slots
        self.answer_type: type[np.generic] = np.intp if bits <= MAX_BITS else np.object_
        """The type of an array of answers: Python's integers are slower, and have as many bits as they need."""
        # What does not depend on a row is known for each verdict; the rest is looked up for the rows that need it.
        self.fixed: Answers = np.array(
            [_fix(verdict, starts, self.slots) for verdict, starts in enumerate(self.unread)], self.answer_type
        )
        """The answer of each verdict, without the unread facts that depend on a row."""
        self._varying = [
            (slot, np.array([_at(starts, slot) > 1 for starts in self.unread]), self._unread_walk(slot))
            for slot in range(self.slots)
            if any(_at(starts, slot) > 1 for starts in self.unread)
        ]

    @property
    def varies(self) -> bool:
        """Whether unread facts depend on more than the verdict."""
        return bool(self._varying)

    def decide(self, codes: Mapping[int, Codes | int], rows: int) -> tuple[NDArray[np.intp], Answers | None]:
        """Return the verdict of each row, and its answer if unread facts vary, from the codes of `facts`."""
        verdicts = np.broadcast_to(self._walk.follow(None, codes), (rows,))
        if not self._varying:
            return verdicts, None
        answers = np.take(self.fixed, verdicts, mode="clip")
        for slot, varies, walk in self._varying:
            places = np.flatnonzero(np.take(varies, verdicts, mode="clip"))
            if len(places):
                mine = {fact: code[places] if isinstance(code, np.ndarray) else code for fact, code in codes.items()}
                unread = np.broadcast_to(walk.follow(verdicts[places], mine), places.shape)
                answers[places] |= unread.astype(self.answer_type, copy=False) << slot
        return verdicts, answers

    def unread_facts(self, answer: int) -> tuple[pb.Fact, ...]:
        """Return the unread facts of an answer, in the order of the facts."""
        unread = self.unread[answer >> self.slots]
        return tuple(self.rule_set.facts[fact] for slot, (fact, _) in enumerate(unread) if answer >> slot & 1)

    def _unread_walk(self, slot: int) -> Walk:
        starts = [_at(starts, slot) for starts in self.unread]
        return walk_of(self.rule_set.unread_diagram, self.rule_set.axes, self.rule_set.facts, starts, 2)


def _unread_of(rule_set: pb.RuleSet) -> list[tuple[tuple[int, int], ...]]:
    by_rule: dict[int, list[tuple[int, int]]] = {}
    for each in rule_set.unread_starts:
        by_rule.setdefault(each.rule, []).append((each.fact, each.start))
    # An undetermined verdict has an unread fact: if there is only one that it can be, it is that.
    by_rule |= {rule: [(facts[0][0], 1)] for rule, facts in by_rule.items() if len(facts) == 1}
    return [tuple(by_rule.get(each.rule, ())) if each.undetermined else () for each in rule_set.verdicts]


def _at(starts: Sequence[tuple[int, int]], slot: int) -> int:
    return starts[slot][1] if slot < len(starts) else 0


def _fix(verdict: int, starts: Sequence[tuple[int, int]], slots: int) -> int:
    return (verdict << slots) | sum(1 << slot for slot, (_, start) in enumerate(starts) if start == 1)


NOT_UTF_8 = "found bytes that are not UTF-8, wanted text in UTF-8"
MAX_CHARACTERS = 300
"""Characters of a reason of Arrow that are shown."""


def one_line(error: Exception) -> str:
    """Return the reason of an error of Arrow in one line."""
    return " ".join(str(error).split())[:MAX_CHARACTERS]


def fault_of(column: pa.Array) -> str | None:
    """Return what is wrong with a column; None: it is as its type says, in every row."""
    try:
        column.validate(full=True)
    except pa.ArrowException as error:
        return NOT_UTF_8 if "UTF8" in str(error) else f"its data is damaged ({one_line(error)}); write the table again"
    return None


class ColumnCheck:
    """Validates the columns of one name in the batches of a table; a dictionary that they share is validated once."""

    def __init__(self) -> None:
        self._dictionary: pa.Array | None = None

    def fault_of(self, column: pa.Array) -> str | None:
        """Return what is wrong with a column; None: it is as its type says, in every row."""
        if not pa.types.is_dictionary(column.type):
            return fault_of(column)
        last, self._dictionary = self._dictionary, column.dictionary
        if last is None or _extent(last) != _extent(column.dictionary):
            return fault_of(column)
        return fault_of(column.indices) or _fault_of_indices(column)


def _extent(array: pa.Array) -> tuple[object, ...]:
    """Return where an array is in memory, which holds nothing else as long as the array is kept."""
    buffers = (None if each is None else (each.address, each.size) for each in array.buffers())
    return (array.type, array.offset, len(array), *buffers)


def _fault_of_indices(column: pa.DictionaryArray) -> str | None:
    extremes, size = pc.min_max(column.indices), len(column.dictionary)
    for each in (extremes["min"].as_py(), extremes["max"].as_py()):
        if each is not None and not 0 <= each < size:
            return f"its data is damaged (index {each:,} of a dictionary of {size:,}); write the table again"
    return None


MAX_LISTED = 1 << 17
"""Answers that are listed before they occur; of a rule set with more, each batch lists its own."""
Room = Sequence[NDArray[np.generic]]
"""An array for each column of a verdict."""


class VerdictColumns:
    """Writes the columns of a verdict. Those with few values are dictionary-encoded."""

    def __init__(self, rules: RuleColumns) -> None:
        self._rules = rules
        verdicts = rules.rule_set.verdicts
        statuses = [rules.rule_set.statuses[verdict.status] for verdict in verdicts]
        self._by_verdict: dict[str, _Column] = {
            "status": _Words(status.name for status in statuses),
            "rule": _Words(rules.rule_set.rules[verdict.rule].id for verdict in verdicts),
            "undetermined": _Flags(verdict.undetermined for verdict in verdicts),
            "withhold_text": _Flags(verdict.withhold_text for verdict in verdicts),
            "lifted_by": _Words(LIFTED_BY.word(status.lifted_by) for status in statuses),
            "retry": _Words(map(self._retry_word, verdicts)),
        }
        self._by_answer: dict[str, _Column] = {"unread": self._unread_words()}
        if not rules.varies:
            self._by_verdict |= self._by_answer
            self._by_answer = {}
        self._names = ("status", "rule", "undetermined", "unread", "withhold_text", "lifted_by", "retry")

    @property
    def schema(self) -> pa.Schema:
        """The columns and their types, without metadata."""
        columns = self._by_verdict | self._by_answer
        return pa.schema([(name, columns[name].type) for name in self._names])

    def room(self, rows: int) -> Room:
        """Return room for the columns of some rows."""
        return [np.empty(rows, each.dtype) for each in (*self._by_verdict.values(), *self._by_answer.values())]

    def write(self, verdicts: NDArray[np.intp], answers: Answers | None, room: Room) -> None:
        """Write the columns of some rows into room for them."""
        for column, to in zip(self._by_verdict.values(), room, strict=False):
            column.write(verdicts, to)
        if answers is not None:
            for column, to in zip(self._by_answer.values(), room[len(self._by_verdict) :], strict=True):
                column.write(answers, to)

    def arrays(self, room: Room) -> list[pa.Array]:
        """Return what was written, in the order of the schema."""
        columns = self._by_verdict | self._by_answer
        found = {name: column.array(each) for (name, column), each in zip(columns.items(), room, strict=True)}
        return [found[name] for name in self._names]

    def _unread_words(self) -> _Column:
        if not self._rules.varies:
            return _Words(map(self._unread_text, self._rules.fixed.tolist()), np.int32)
        answers = len(self._rules.rule_set.verdicts) << self._rules.slots
        if answers <= MAX_LISTED:
            return _Words(map(self._unread_text, range(answers)), np.int32)
        return _ListedWords(self._unread_text, np.int32, self._rules.answer_type)

    def _unread_text(self, answer: int) -> str:
        return ",".join(fact.name for fact in self._rules.unread_facts(answer))

    def _retry_word(self, verdict: pb.Verdict) -> str | None:
        """Return the word; None if it depends on every combination that unknown facts can still turn out to have."""
        if verdict.undetermined:
            return None
        status = self._rules.rule_set.statuses[verdict.status]
        return RETRY.word(status.retry)


class _Words:
    """A word for each number, or none, as a dictionary and the place of each number's word in it; -1 is none."""

    def __init__(self, words: Iterable[str | None], least: type[np.signedinteger] = np.int8) -> None:
        places: dict[str, int] = {}
        each = [-1 if word is None else places.setdefault(word, len(places)) for word in words]
        fitting = (kind for kind in (np.int8, np.int16, np.int32) if len(places) <= np.iinfo(kind).max)
        self.dtype: type[np.generic] = max(next(fitting), least, key=lambda kind: np.dtype(kind).itemsize)
        self.type = pa.dictionary(pa.from_numpy_dtype(self.dtype), pa.string())
        self._places = np.array(each, self.dtype)
        self._has_none = -1 in each
        self._words = pa.array(list(places), pa.string())

    def write(self, numbers: Answers, to: NDArray[np.generic]) -> None:
        """Write the place of each number's word."""
        np.take(self._places, numbers, out=to, mode="clip")

    def array(self, written: NDArray[np.generic]) -> pa.Array:
        """Return the words."""
        places = pa.array(written, mask=np.less(written, 0)) if self._has_none else pa.array(written)
        return pa.DictionaryArray.from_arrays(places, self._words, safe=False)


class _ListedWords:
    """The words of numbers that are too many to be listed before they occur."""

    def __init__(
        self, word: Callable[[int], str], least: type[np.signedinteger], answer_type: type[np.generic]
    ) -> None:
        self.dtype = answer_type
        self.type = pa.dictionary(pa.from_numpy_dtype(least), pa.string())
        self._word, self._least = word, least

    def write(self, numbers: Answers, to: NDArray[np.generic]) -> None:
        """Keep each number."""
        to[:] = numbers

    def array(self, written: NDArray[np.generic]) -> pa.Array:
        """Return the words."""
        found, places = np.unique(written, return_inverse=True)
        listed = _Words(map(self._word, found.tolist()), self._least)
        to = np.empty(len(written), listed.dtype)
        listed.write(places, to)
        return listed.array(to)


class _Flags:
    """A truth value for each number."""

    def __init__(self, flags: Iterable[bool]) -> None:
        self.type = pa.bool_()
        self.dtype: type[np.generic] = np.bool_
        self._flags = np.array(list(flags), np.bool_)

    def write(self, numbers: Answers, to: NDArray[np.generic]) -> None:
        """Write each number's value."""
        np.take(self._flags, numbers, out=to, mode="clip")

    def array(self, written: NDArray[np.generic]) -> pa.Array:
        """Return the values, as bits."""
        packed = np.packbits(written.view(np.uint8), bitorder="little")
        return pa.Array.from_buffers(pa.bool_(), len(written), [None, pa.py_buffer(packed)])


_Column = _Words | _ListedWords | _Flags
"""A column that follows from a number."""
