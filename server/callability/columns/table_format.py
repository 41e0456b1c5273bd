"""The formats of files with tables."""

from __future__ import annotations

from enum import StrEnum


class TableFormat(StrEnum):
    """The format of a file, by the ending of its name."""

    PARQUET = "parquet"
    ARROW = "arrow"
    CSV = "csv"
    JSON_LINES = "json lines"
