"""From verdicts and answers to columns of Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from callability.bundle.v1 import bundle_pb2 as pb
from callability.columns.rule_columns import Answers, RuleColumns
from callability.v1 import verdict_pb2

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
            "lifted_by": _Words(_lifted_by(status) for status in statuses),
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
        return verdict_pb2.Retry.Name(status.retry).removeprefix("RETRY_").lower()


class _Column(Protocol):
    """A column that follows from a number."""

    type: pa.DataType
    dtype: type[np.generic]

    def write(self, numbers: Answers, to: NDArray[np.generic]) -> None:
        """Write what is kept of each row."""

    def array(self, written: NDArray[np.generic]) -> pa.Array:
        """Return the column of what was written."""


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


def _lifted_by(status: pb.Status) -> str:
    return verdict_pb2.LiftedBy.Name(status.lifted_by).removeprefix("LIFTED_BY_").lower()
