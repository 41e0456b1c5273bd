"""Whether columns of Arrow hold what their types say: a damaged one can end the process that reads it."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

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
