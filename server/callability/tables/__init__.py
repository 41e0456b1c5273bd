"""Verdicts for whole tables: a compiled policy over columns of Arrow.

A table has a row for each tool, and a column for each fact, with the fact's name. Null is unknown. `decide` yields the
verdicts batch by batch, in constant memory.

Its modules, from bottom to top: `name_classes` and `fact_column` read the columns of facts, `states` and `transitions`
walk the decision diagram with tables, `rule_columns` and `verdict_columns` decide and write, `validation` and
`decoding` see to what columns hold, and `column_policy` joins them. `tables` reads and writes files: `text_tables`
those in text, and `arrow_files` those that are checked in a child process.
"""

from callability.tables.column_policy import ColumnPolicy, Columns, Reading, decide
from callability.tables.fact_column import OddValues, UnfitColumn
from callability.tables.formats import decoded, decoded_schema

__all__ = ["ColumnPolicy", "Columns", "OddValues", "Reading", "UnfitColumn", "decide", "decoded", "decoded_schema"]
