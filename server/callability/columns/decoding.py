"""Tables without dictionaries, for engines that do not take them."""

from __future__ import annotations

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
