"""Tables without dictionaries, for engines that do not take them."""

from __future__ import annotations

from typing import overload

import pyarrow as pa


@overload
def decoded(table: pa.RecordBatch) -> pa.RecordBatch: ...
@overload
def decoded(table: pa.Schema) -> pa.Schema: ...
def decoded(table: pa.RecordBatch | pa.Schema) -> pa.RecordBatch | pa.Schema:
    """Return a record batch, or its schema, with each dictionary-encoded column as what the dictionary holds.

    Spark takes no dictionaries back from Python, and CSV has none.
    """
    if isinstance(table, pa.Schema):
        return pa.schema([each.with_type(plain_type(each.type)) for each in table], table.metadata)
    columns = [column.cast(plain_type(column.type)) for column in table.columns]
    return pa.RecordBatch.from_arrays(columns, schema=decoded(table.schema))


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of what a dictionary-encoded column holds; other types as they are."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind
