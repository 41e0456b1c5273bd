"""Why a file cannot be read as a table: what was found, and what is wanted."""

from __future__ import annotations

import csv
import re
from itertools import islice
from pathlib import Path

from callability.columns.table_format import TableFormat
from callability.finding import shown

MAX_CHARACTERS = 300
"""Characters of a reason of Arrow that are shown."""
_HEADER_BYTES = 1 << 16
_PREFIX = re.compile(r".*(?:input source '[^']*'|Is this a '\w+' file\?): (?:Invalid: )?", re.DOTALL)
_VALUE = re.compile(r"In CSV column #(\d+): (?:Row #(\d+): )?CSV conversion error to (.+?): invalid value '(.*)'")
_FIELDS = re.compile(r"CSV parse error: (?:Row #(\d+): )?Expected (\d+) columns, got (\d+)")
_WANTED_TYPES = {"bool": "true or false"}


_MAGIC = {TableFormat.PARQUET: b"PAR1", TableFormat.ARROW: b"ARROW1"}


def reason(path: Path, form: TableFormat, error: Exception) -> str:
    """Return why a file cannot be read as a table, from the error of Arrow."""
    if isinstance(error, UnicodeDecodeError):
        return "found bytes that are not UTF-8, wanted text in UTF-8"
    text = " ".join(_PREFIX.sub("", str(error)).split())
    if isinstance(error, FileNotFoundError | PermissionError):
        return (error.strerror or text).lower()
    match form:
        case TableFormat.CSV:
            return _in_csv(path, text)
        case TableFormat.JSON_LINES:
            return f"wanted a JSON object on each line: {text[:MAX_CHARACTERS]}"
        case _:
            return _in_binary(path, form, text)


def _in_csv(path: Path, text: str) -> str:
    if value := _VALUE.search(text):
        column, row, kind, found = value.groups()
        where = f"{_place(row)}, " if row else ""
        wanted = _WANTED_TYPES.get(kind, f"a value of the type {kind}")
        return f"{where}column {shown(_header(path, int(column)))}: found {shown(found)}, wanted {wanted}"
    if fields := _FIELDS.search(text):
        row, wanted, found = fields.groups()
        return f"{f'{_place(row)}: ' if row else ''}found {found} fields, wanted {wanted}, as many as the header has"
    if "Empty CSV" in text:
        return "found an empty file, wanted a first line with the names of the columns"
    if "invalid UTF8" in text:
        return "found bytes that are not UTF-8, wanted text in UTF-8"
    return text[:MAX_CHARACTERS]


def _place(row: str) -> str:
    """Return a row as people count them: Arrow counts the header as a row."""
    return f"row {int(row) - 1:,}"


def _header(path: Path, place: int) -> str:
    """Return the name of a column of a CSV file; its number, if the header cannot be read."""
    with path.open(encoding="utf-8", errors="replace", newline="") as stream:
        header = next(csv.reader(islice(stream.read(_HEADER_BYTES).splitlines(keepends=True), 1)), [])
    return header[place] if place < len(header) else f"number {place + 1}"


def _in_binary(path: Path, form: TableFormat, text: str) -> str:
    magic = _MAGIC[form]
    with path.open("rb") as stream:
        begins = stream.read(len(magic))
    size = path.stat().st_size
    if begins != magic:
        begin = f" that begin with {shown(begins.decode('latin-1'))}" if begins else ""
        return f"found {size:,} bytes{begin}, wanted a file that begins with `{magic.decode()}`"
    return f"the file is damaged or not complete: {text[:MAX_CHARACTERS]}"
