"""Columns in plainer forms of the same values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa


def decoded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a record batch with each dictionary-encoded column as what the dictionary holds.

    Spark takes no dictionaries back from Python, and CSV has none.
    """
    columns = [column.cast(plain_type(column.type)) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=decoded_schema(batch.schema))


def decoded_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema of a record batch that is decoded."""
    return pa.schema([each.with_type(plain_type(each.type)) for each in schema], schema.metadata)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of what a dictionary-encoded column holds; other types as they are."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def plain_form(column: pa.Array) -> pa.Array:
    """Return a valid column without text views, runs, and dictionaries of what is no text."""
    kind = column.type
    if pa.types.is_string_view(kind):
        return column.cast(pa.large_string())
    if pa.types.is_run_end_encoded(kind):
        rows = np.arange(column.offset, column.offset + len(column))
        places = np.searchsorted(column.run_ends.to_numpy(), rows, side="right")
        return plain_form(column.values).take(pa.array(places))
    if pa.types.is_dictionary(kind) and plain_form_type(kind) != kind:
        words = plain_form(column.dictionary)
        if pa.types.is_dictionary(plain_form_type(kind)):
            return pa.DictionaryArray.from_arrays(column.indices, words)
        return words.take(column.indices)
    return column


def plain_form_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the plain form of a column."""
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_run_end_encoded(kind):
        return plain_form_type(kind.value_type)
    if pa.types.is_dictionary(kind):
        words = plain_form_type(kind.value_type)
        is_text = pa.types.is_string(words) or pa.types.is_large_string(words)
        return pa.dictionary(kind.index_type, words) if is_text else plain_type(words)
    return kind
