"""Verdicts for whole tables: a compiled policy over columns of Arrow.

A table has a row for each tool, and a column for each fact, with the fact's name. Null is unknown. `decide` yields the
verdicts batch by batch, in constant memory.

Its modules, bottom to top; each imports only from those above it in this list:

- `fact_column`: reads the columns of facts
- `verdict_columns`: walks the decision diagram with columns, and writes the verdicts
- `formats`: tables as text, and Arrow files, which a child process checks
- `column_policy`: a compiled policy over columns
- `files`: reads and writes files of tables
"""

from callability.tables.column_policy import ColumnPolicy, Columns, ReadingPlan, decide
from callability.tables.fact_column import OddValues, UnfitColumn
from callability.tables.formats import decoded, decoded_schema

__all__ = ["ColumnPolicy", "Columns", "OddValues", "ReadingPlan", "UnfitColumn", "decide", "decoded", "decoded_schema"]
