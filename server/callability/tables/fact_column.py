"""From a column of Arrow to codes of a fact's readings; a name is read to its class."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from callability.bundle.v1 import bundle_pb2 as pb
from callability.contract.finding import as_code
from callability.contract.vocabulary import MAX_BYTES, byte_length

_SPECIAL = re.compile(r"([^A-Za-z0-9_\x80-\U0010ffff])")
"""What is escaped in an expression: only ASCII may be."""


class ColumnClasses:
    """Maps names to the readings of a fact that is a name.

    The groups of patterns are tried one after the other. What has matched so far is a state, so that a name needs one
    look-up for each group, however many classes there are.
    """

    def __init__(self, fact: pb.Fact) -> None:
        self._groups = [tuple(group.patterns) for group in fact.pattern_groups]
        self._classes = [frozenset(each.groups) for each in fact.name_classes]

    def readings(self, names: pa.Array) -> NDArray[np.int32]:
        """Return the reading of each of some names, which are not null; -1 for a name that no class has."""
        states: NDArray[np.int32] = np.zeros(len(names), np.int32)
        for patterns, table in zip(self._groups, self._tables, strict=True):
            states = np.where(states < 0, -1, table[states * 2 + _match(patterns, names)])
        return states

    @cached_property
    def _tables(self) -> list[NDArray[np.int32]]:
        """For each group: from the state before it, doubled, plus whether it matches, to the state after it.

        What is part of no class leads to -1.
        """
        tables = []
        states: dict[frozenset[int], int] = {frozenset(): 0}
        for number in range(len(self._groups)):
            last = number == len(self._groups) - 1
            following: dict[frozenset[int], int] = {}
            if last:
                following = {members: reading for reading, members in enumerate(self._classes)}
            prefixes = {frozenset(each for each in members if each <= number) for members in self._classes}
            table = np.full(2 * len(states), -1, np.int32)
            for members, state in states.items():
                for bit in (0, 1):
                    after = members | {number} if bit else members
                    if after in prefixes:
                        table[2 * state + bit] = following.setdefault(after, len(following))
            states = following
            tables.append(table)
        return tables


def _match(patterns: Iterable[str], names: pa.Array) -> NDArray[np.int32]:
    """Return 1 for each name that is one of some names, or is matched by one of the patterns among them."""
    exact = [each for each in patterns if not {"*", "?"} & set(each)]
    found = pc.is_in(names, value_set=pa.array(exact, names.type))
    for glob in patterns:
        if glob not in exact:
            found = pc.or_(found, pc.match_substring_regex(names, _regex(glob)))
    matched: NDArray[np.int32] = found.to_numpy(zero_copy_only=False).astype(np.int32)
    return matched


def _regex(glob: str) -> str:
    """Return an expression (RE2) that matches the whole of the names that a pattern matches."""
    parts = ({"*": ".*", "?": "."}.get(each) or _SPECIAL.sub(r"\\\1", each) for each in glob)
    return rf"(?s)\A{''.join(parts)}\z"


Codes = NDArray[Any]
"""Integers, as small as they fit."""
MAX_SHOWN = 5
"""Values outside a domain that are kept to be reported, for each column."""
_WORDS = pa.array(["false", "true"])
"""What the bits of a boolean column say in a fact with other values."""


class UnfitColumn(ValueError):
    """A column that cannot be read as its fact. Its text names the column, what was found, and what is wanted."""


class MissingColumns(UnfitColumn):
    """Columns of facts that a table does not have, and that it may lack if they are unknown in every row."""


@dataclass(slots=True)
class OddValues:
    """The values of a column that its fact does not have: how many rows have one, and a few of them.

    These rows were read as unknown, or as the default of an asserted fact.
    """

    rows: int = 0
    values: dict[str, None] = field(default_factory=dict)


def number_of_codes(fact: pb.Fact) -> int:
    """Return how many codes a fact has: one for each value, and one for unknown, unless it is asserted."""
    return len(fact.values) + (not fact.asserted)


def _numpy_type(integers: pa.DataType) -> np.dtype[Any]:
    """Return the type of integers for numpy; pyarrow needs pandas for it, up to version 17."""
    sign = "u" if pa.types.is_unsigned_integer(integers) else "i"
    return np.dtype(f"{sign}{integers.bit_width // 8}")


class ColumnReader:
    """Reads the columns of one fact.

    A *code* is the place of a value of the fact; the number of values stands for unknown. An asserted fact has no such
    code: it has its default if it is null, or has a value outside its domain. `classes` are those of a name, which
    readers of other tables share; they are found if they are not given.
    """

    def __init__(self, fact: pb.Fact, classes: ColumnClasses | None = None) -> None:
        self.name = fact.name
        self.is_name = fact.kind == pb.FACT_KIND_NAME
        self.odd = OddValues()
        self._values: Sequence[str] = tuple(fact.values)
        self._null = fact.default_value if fact.asserted and not self.is_name else len(fact.values)
        self._needed = fact.asserted and self.is_name
        self._least_bytes = int(self._needed)
        self._classes = (classes or ColumnClasses(fact)) if self.is_name else None
        self._last: tuple[pa.Array, NDArray[np.int32], NDArray[np.bool_] | None] | None = None

    @property
    def boolean(self) -> bool:
        """Whether the fact is true or false."""
        return set(self._values) == {"true", "false"}

    @property
    def arrow_type(self) -> pa.DataType:
        """The type of Arrow that its column should have."""
        return pa.bool_() if self.boolean else pa.dictionary(pa.int32(), pa.string())

    @property
    def default(self) -> str | None:
        """What a null is read as; None: it is unknown."""
        return self._values[self._null] if self._null < len(self._values) else None

    def constant(self, value: str | None) -> int:
        """Return the code of a value that all rows have; None: it is unknown."""
        if value is None:
            if self._needed:
                raise UnfitColumn(f"column `{self.name}` is missing: every row needs it")
            return self._null
        codes, odd = self._text_codes(pa.array([value], pa.string()))
        if self.is_name and odd[0]:
            raise UnfitColumn(f"the given `{self.name}`: {self._why_unfit(value, 'give another one')}")
        return int(codes[0])

    def read(self, column: pa.Array, earlier: int = 0) -> Codes:
        """Return the code of each row; an error counts its row from 1, after the `earlier` rows of the table.

        Raises:
            UnfitColumn: the column has another type, a null where a name is needed, or a name that none can have.
        """
        if pa.types.is_dictionary(column.type) and column.dictionary.null_count:
            # A row is null as well if its place in the dictionary is.
            column = column.cast(column.type.value_type)
        if self._needed and column.null_count:
            row = earlier + int(pc.index(column.is_null(), True).as_py()) + 1
            raise UnfitColumn(f"column `{self.name}` is null in row {row:,}: every row needs a name")
        if pa.types.is_null(column.type):
            return np.full(len(column), self._null, self._dtype)
        if pa.types.is_boolean(column.type) and not self.is_name:
            return self._of_booleans(column, earlier)
        if not pa.types.is_dictionary(column.type):
            if not _is_text(column.type):
                raise UnfitColumn(f"column `{self.name}` has the type {column.type}, and {self._wanted_type} is needed")
            column = column.dictionary_encode()
        if not _is_text(column.type.value_type):
            raise UnfitColumn(f"column `{self.name}` has the type {column.type}, and {self._wanted_type} is needed")
        return self._of_dictionary(column, earlier)

    @property
    def _wanted_type(self) -> str:
        return "boolean" if self.boolean else "text, best dictionary-encoded,"

    @property
    def _dtype(self) -> type[np.unsignedinteger]:
        greatest = len(self._values)
        return np.uint8 if greatest < 256 else np.uint16 if greatest < 65_536 else np.uint32

    def _of_booleans(self, column: pa.BooleanArray, earlier: int) -> Codes:
        if self._values != ("true", "false"):
            return self._of_dictionary(pa.DictionaryArray.from_arrays(column.cast(pa.int8()), _WORDS), earlier)
        validity, data = column.buffers()
        true = _pack(data, column)
        valid = None if validity is None or not column.null_count else _pack(validity, column)
        # Bit by bit: 0 is true, 1 is false, and 2 is null.
        if valid is None:
            return _bits(~true, column)
        if self._null == 0:
            return _bits(~true & valid, column)
        if self._null == 1:
            return _bits(~(true & valid), column)
        return _bits(~true & valid, column) | (_bits(~valid, column) << 1)

    def _of_dictionary(self, column: pa.DictionaryArray, earlier: int) -> Codes:
        table, odd = self._table(column.dictionary)
        validity = column.indices.buffers()[0]
        indices = np.frombuffer(column.indices.buffers()[1], _numpy_type(column.indices.type))
        indices = indices[column.indices.offset : column.indices.offset + len(column)]
        if validity is not None and column.indices.null_count:
            missing = _bits(~_pack(validity, column.indices), column.indices).view(np.bool_)
            # What lies under a null may be any number. The last place of the table is for nulls, and the type of the
            # indices may be too small for it.
            indices = np.where(missing, len(table) - 1, indices.astype(np.intp))
        if odd is not None and self.is_name:
            self._refuse(column.dictionary, indices, odd, earlier)
        elif odd is not None:
            self._count(column.dictionary, indices, odd)
        codes: Codes = np.take(table, indices, mode="clip").astype(self._dtype, copy=False)
        return codes

    def _table(self, dictionary: pa.Array) -> tuple[NDArray[np.int32], NDArray[np.bool_] | None]:
        """Return the code of each value of a dictionary, and of null; and which values the fact does not have."""
        if self._last is None or not (self._last[0] is dictionary or self._last[0].equals(dictionary)):
            codes, odd = self._text_codes(dictionary)
            table = np.append(codes, self._null).astype(self._dtype)
            self._last = dictionary, table, odd if odd.any() else None
        return self._last[1], self._last[2]

    def _text_codes(self, texts: pa.Array) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        """Return the code of each text, and which texts the fact does not have."""
        try:
            texts.validate(full=True)
        except pa.ArrowInvalid:
            raise UnfitColumn(f"column `{self.name}`: found bytes that are not UTF-8, wanted text in UTF-8") from None
        if self._classes is not None:
            return self._name_codes(texts, self._classes)
        found = pc.index_in(texts, value_set=pa.array(self._values, texts.type))
        odd = pc.and_(found.is_null(), texts.is_valid()).to_numpy(zero_copy_only=False)
        return pc.fill_null(found, self._null).to_numpy(zero_copy_only=False).astype(np.int32), odd

    def _name_codes(self, names: pa.Array, classes: ColumnClasses) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        codes = classes.readings(names)
        sizes = pc.binary_length(names).to_numpy(zero_copy_only=False)
        odd = (codes < 0) | (sizes < self._least_bytes) | (sizes > MAX_BYTES)
        return np.where(odd, self._null, codes), odd

    def _refuse(self, dictionary: pa.Array, indices: NDArray[np.generic], odd: NDArray[np.bool_], earlier: int) -> None:
        """Raise an error if a row has a name that cannot occur."""
        rows = np.flatnonzero(np.append(odd, False)[indices])
        if len(rows):
            name = dictionary[int(indices[rows[0]])].as_py()
            why = self._why_unfit(name, "correct or remove the row")
            raise UnfitColumn(f"column `{self.name}`, row {earlier + rows[0] + 1:,}: {why}")

    def _why_unfit(self, name: str, advice: str) -> str:
        size = byte_length(name)
        if self._least_bytes <= size <= MAX_BYTES:
            return f"found the name {as_code(name)}, for which the bundle has no class; build the bundle again"
        found = f"a name of {size:,} bytes, {as_code(name)}" if name else "an empty name"
        wanted = f"{self._least_bytes} to {MAX_BYTES}" if self._least_bytes else f"at most {MAX_BYTES}"
        return f"found {found}, wanted {wanted} bytes; {advice}"

    def _count(self, dictionary: pa.Array, indices: NDArray[np.generic], odd: NDArray[np.bool_]) -> None:
        """Count the rows whose value the fact does not have."""
        uses = np.bincount(indices.astype(np.int64), minlength=len(odd))[: len(odd)]
        self.odd.rows += int(uses[odd].sum())
        for place in np.flatnonzero(odd & (uses > 0)):
            if len(self.odd.values) < MAX_SHOWN:
                self.odd.values.setdefault(dictionary[int(place)].as_py())


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _pack(buffer: pa.Buffer, column: pa.Array) -> NDArray[np.uint8]:
    """Return the bytes of a buffer of bits in which those of a column are."""
    return np.frombuffer(buffer, np.uint8)[column.offset // 8 : (column.offset + len(column) + 7) // 8]


def _bits(packed: NDArray[np.uint8], column: pa.Array) -> NDArray[np.uint8]:
    """Return the bits of a column, a byte each."""
    return np.unpackbits(packed, bitorder="little")[column.offset % 8 :][: len(column)]
