"""Why a file cannot be read as a table: what was found, and what is wanted."""

from __future__ import annotations

import re
from pathlib import Path

from callability.columns.table_format import TableFormat
from callability.columns.text_tables import names_in_csv
from callability.columns.validation import MAX_CHARACTERS, NOT_UTF_8
from callability.finding import shown

DAMAGED = "the file is damaged or not complete"
_PREFIX = re.compile(r".*(?:input source '[^']*'|Is this a '\w+' file\?): (?:Invalid: )?", re.DOTALL)
_VALUE = re.compile(r"In CSV column #(\d+): (?:Row #(\d+): )?.*invalid UTF8")
_FIELDS = re.compile(r"CSV parse error: (?:Row #(\d+): )?Expected (\d+) columns, got (\d+)")
_MAGIC = {TableFormat.PARQUET: b"PAR1", TableFormat.ARROW: b"ARROW1"}


def reason(path: Path, form: TableFormat, error: Exception) -> str:
    """Return why a file cannot be read as a table, from the error of Arrow."""
    if isinstance(error, UnicodeDecodeError):
        return NOT_UTF_8
    text = " ".join(_PREFIX.sub("", str(error)).split())
    if isinstance(error, FileNotFoundError | PermissionError):
        return (error.strerror or text).lower()
    match form:
        case TableFormat.CSV:
            return _in_csv(path, text)
        case _:
            return _in_binary(path, form, text)


def _in_csv(path: Path, text: str) -> str:
    if fields := _FIELDS.search(text):
        row, wanted, found = fields.groups()
        return f"{f'{_place(row)}: ' if row else ''}found {found} fields, wanted {wanted}, as many as the header has"
    if "Empty CSV" in text:
        return "found an empty file, wanted a first line with the names of the columns"
    if value := _VALUE.search(text):
        column, row = value.groups()
        where = f"{_place(row)}, " if row else ""
        return f"{where}column {shown(names_in_csv(path)[int(column)])}: {NOT_UTF_8}"
    if "invalid UTF8" in text:
        return NOT_UTF_8
    return text[:MAX_CHARACTERS]


def _place(row: str) -> str:
    """Return a row as people count them: Arrow counts the header as a row."""
    return f"row {int(row) - 1:,}"


def _in_binary(path: Path, form: TableFormat, text: str) -> str:
    magic = _MAGIC[form]
    with path.open("rb") as stream:
        begins = stream.read(len(magic))
    size = path.stat().st_size
    if begins != magic:
        begin = f" that begin with {shown(begins.decode('latin-1'))}" if begins else ""
        return f"found {size:,} bytes{begin}, wanted a file that begins with `{magic.decode()}`"
    return f"{DAMAGED}: {text[:MAX_CHARACTERS]}"
