"""The formats of tables. In text, every column is read as text, and only those of facts are converted.

Arrow files are validated in a child process: a damaged one can end the process that reads it. As a program, this is
that child: it reads pickled paths from standard input, and writes a line before it reads each of them. If a file is
refused, the last line says why.
"""

from __future__ import annotations

import json
import pickle
import re
import sys
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE, getincrementaldecoder
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc

from callability.contract.finding import as_code
from callability.process.child import Child, Exited, NoOutput
from callability.process.limits import MAX_MEMORY, limit_this_process
from callability.tables.verdict_columns import MAX_CHARACTERS, NOT_UTF_8, fault_of


class TableFormat(StrEnum):
    """The format of a file, by the ending of its name."""

    PARQUET = "parquet"
    ARROW = "arrow"
    CSV = "csv"
    JSON_LINES = "json lines"


_BLOCK = 1 << 20
"""Bytes of CSV that are read at once."""
_BATCH_ROWS = 1 << 13
"""Rows of JSON lines that are read at once."""
_MAX_LINE = 1 << 20
"""Bytes of a row of JSON lines."""
_NULLS = frozenset({"NULL", "null"})
"""What is null in CSV beside an empty field, in the column of a fact."""
_NEVER_NULL = ("server.name", "tool.name")
"""Facts that are known in every row: `null` is then a name."""
_BOOLEANS = {word: word.lower() == "true" for word in ("true", "True", "TRUE", "false", "False", "FALSE")}
_WORDS = pa.dictionary(pa.int32(), pa.string())


class UnfitText(Exception):
    """A row that cannot be read. The text names its number and the column, what was found, and what is wanted."""


def text_schema(names: Iterable[str], facts: pa.Schema) -> pa.Schema:
    """Return the columns of a table in text: those of facts have the types of facts, and the others are text."""
    return pa.schema([(name, facts.field(name).type if name in facts.names else pa.string()) for name in names])


def names_in_csv(path: Path) -> list[str]:
    """Return the names of the columns of a CSV file."""
    with _csv_reader(path) as reader:
        return list(reader.schema.names)


def read_csv(path: Path, facts: pa.Schema, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield some columns of the rows of a CSV file.

    Raises:
        UnfitText: a value of a boolean fact is another word.
        pa.ArrowException: the file is no CSV.
    """
    rows = 0
    with _csv_reader(path, {name: _WORDS if name in facts.names else pa.string() for name in names}) as reader:
        for batch in reader:
            yield _convert(batch, facts, rows, in_csv=True)
            rows += batch.num_rows


def _csv_reader(path: Path, types: dict[str, pa.DataType] | None = None) -> pa.csv.CSVStreamingReader:
    """Open a CSV file. An empty field is null and an empty text is none, so that both are written as they were read."""
    return pa.csv.open_csv(
        path,
        # One thread counts the rows that errors name.
        pa.csv.ReadOptions(block_size=_BLOCK, use_threads=False),
        pa.csv.ParseOptions(newlines_in_values=True),
        pa.csv.ConvertOptions(
            column_types=types,
            include_columns=[*types] if types else None,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


_QUOTES_PAIR = re.compile(
    rb"""(?: [^"]++
           | (?<=[^,\r\n])"                                            # a quote in a field that does not begin with one
           | (?<![^,\r\n])" [^"\r\n]*+ (?: ""[^"\r\n]*+ )*+ "          # a quoted field, whatever follows it in its line
           | (?<![^,\r\n])" [^"]*+ (?: ""[^"]*+ )*+ " (?![^,\r\n])     # one of several lines, with nothing after it
         )*+""",
    re.VERBOSE,
)
_ANOTHER = "wanted another quote at the end of this field: without it, the rows below are part of it; correct the row"


def check_quotes(path: Path) -> None:
    """Check that no quoted field of a CSV file takes in what follows it, since its quote is not closed.

    Raises:
        UnfitText: a quoted field of several lines goes on behind its second quote, or the file ends in it.
        UnicodeDecodeError: what is there is no text.
        OSError: the file cannot be read.
    """
    lines, rest = 1, b"\n"
    with path.open("rb") as stream:
        stream.seek(len(BOM_UTF8) if stream.read(len(BOM_UTF8)) == BOM_UTF8 else 0)
        # The reader refuses a row of two blocks.
        while len(rest) <= 2 * _BLOCK:
            block = stream.read(_BLOCK)
            rest += block
            # What a quote means depends on the byte after it.
            found = _QUOTES_PAIR.match(rest, 1, len(rest.rstrip(b'"') if block else rest))
            assert found
            lines += _line_ends(rest[1 : found.end()])
            rest = rest[found.end() - 1 :]
            if not block:
                break
    if len(rest) > 1:
        getincrementaldecoder("utf-8")().decode(rest)
        field = rest[1 : 1 + MAX_CHARACTERS].splitlines()[0].partition(b",")[0].decode(errors="replace")
        raise UnfitText(f"line {lines:,}: found {as_code(field)}, {_ANOTHER}")


def _line_ends(data: bytes) -> int:
    return data.count(b"\n") or data.count(b"\r")


def names_in_json_lines(path: Path) -> list[str]:
    """Return the names of the columns of a file with JSON lines: those of all rows, since any may have another.

    Raises:
        UnfitText: a line holds no JSON object.
        OSError: the file cannot be read.
    """
    names: dict[str, None] = {}
    for row in _objects(path):
        names.update(dict.fromkeys(row))
    return [*names]


def read_json_lines(path: Path, facts: pa.Schema, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield some columns of the rows of a file with JSON lines.

    What is no text is passed on as the JSON that it is.

    Raises:
        UnfitText: a line holds no JSON object, or a value of a boolean fact is another word.
        OSError: the file cannot be read.
    """
    objects, rows = _objects(path), 0
    while found := list(islice(objects, _BATCH_ROWS)):
        texts = {name: [_text(row.get(name)) for row in found] for name in names}
        arrays = [_text_array(name, each, rows) for name, each in texts.items()]
        yield _convert(pa.RecordBatch.from_arrays(arrays, names=list(names)), facts, rows, in_csv=False)
        rows += len(found)


class _Number(str):
    """A number as the file writes it."""

    __slots__ = ()


def _objects(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the object of each line that is not blank."""
    rows = 0
    with path.open("rb") as stream:
        while line := stream.readline(_MAX_LINE + 1):
            text = (line if rows else line.removeprefix(BOM_UTF8)).strip()
            if text:
                rows += 1
                yield _row(rows, text)


def _row(number: int, text: bytes) -> dict[str, Any]:
    """Return the object of a line."""
    try:
        # What is cut is no JSON either.
        found = _DECODER.decode(text.decode()) if len(text) < _MAX_LINE else f"more than {_MAX_LINE:,} bytes"
    except UnicodeDecodeError:
        raise UnfitText(f"row {number:,}: {NOT_UTF_8}") from None
    except RecursionError:
        raise UnfitText(f"row {number:,}: its values are nested too deeply") from None
    except ValueError as error:
        # The line that a JSON reader counts is always the first.
        why = str(error).replace(": line 1 column", " at character").partition(" (char")[0]
        raise UnfitText(f"row {number:,}: wanted a JSON object: {why[:1].lower()}{why[1:]}") from None
    if not isinstance(found, dict):
        shown = text.decode() if len(text) < _MAX_LINE else found
        raise UnfitText(f"row {number:,}: wanted a JSON object: found {as_code(shown)}")
    return found


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        raise ValueError(f"it has two members {as_code(counts.most_common(1)[0][0])}")
    return found


def _no_number(word: str) -> None:
    raise ValueError(f"found {as_code(word)}, which is no JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_Number, parse_float=_Number, parse_constant=_no_number
)


def _text(value: Any) -> str | None:
    """Return a value of JSON as text: a text as it is, and what else there is as JSON."""
    if value is None or type(value) is str:
        return value
    # Most of the other values are these.
    return "true" if value is True else "false" if value is False else _as_json(value)


def _as_json(value: Any) -> str:
    match value:
        case _Number():
            return str(value)
        case dict():
            return f"{{{', '.join(f'{_as_json(name)}: {_as_json(each)}' for name, each in value.items())}}}"
        case list():
            return f"[{', '.join(map(_as_json, value))}]"
        case _:
            return json.dumps(value, ensure_ascii=False)


def _text_array(name: str, texts: list[str | None], earlier: int) -> pa.Array:
    try:
        return pa.array(texts, pa.string())
    except UnicodeEncodeError as error:
        row = earlier + texts.index(error.object) + 1
        found = "half of a surrogate pair, wanted characters"
        raise UnfitText(f"row {row:,}, column {as_code(name)}: found {found}; correct the row") from None


def _convert(batch: pa.RecordBatch, facts: pa.Schema, earlier: int, *, in_csv: bool) -> pa.RecordBatch:
    """Return a batch of texts with the columns of facts as facts are read."""
    arrays = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if name in facts.names:
            words = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
            nulls = _NULLS if in_csv and name not in _NEVER_NULL else frozenset()
            column = _fact(facts.field(name), words, nulls, earlier)  # noqa: PLW2901
        arrays.append(column)
    return pa.RecordBatch.from_arrays(arrays, schema=text_schema(batch.schema.names, facts))


def _fact(field: pa.Field, column: pa.DictionaryArray, nulls: Collection[str], earlier: int) -> pa.Array:
    """Return a column of words as that of a fact; a word that the fact has as a value is not null."""
    words = column.dictionary.to_pylist()
    if pa.types.is_boolean(field.type):
        read = [None if word in nulls else _BOOLEANS.get(word.strip(), word) for word in words]
        unfit = [place for place, each in enumerate(read) if isinstance(each, str)]
        if unfit:
            row = int(np.flatnonzero(np.isin(column.indices.fill_null(-1).to_numpy(), unfit))[0])
            found = as_code(column[row].as_py())
            where = f"row {earlier + row + 1:,}, column {as_code(field.name)}"
            raise UnfitText(f"{where}: found {found}, wanted true or false; correct the row")
        return pa.array(read, pa.bool_()).take(column.indices)
    values = (field.metadata or {}).get(b"values", b"").decode().split(", ")
    unknown = {*nulls} - {*values}
    if unknown.isdisjoint(words):
        return column
    places = pa.array([None if word in unknown else place for place, word in enumerate(words)], pa.int32())
    return pa.DictionaryArray.from_arrays(places.take(column.indices), column.dictionary)


DAMAGED = "the file is damaged or not complete"
_PREFIX = re.compile(r".*(?:input source '[^']*'|Is this a '\w+' file\?): (?:Invalid: )?", re.DOTALL)
_VALUE = re.compile(r"In CSV column #(\d+): (?:Row #(\d+): )?.*invalid UTF8")
_FIELDS = re.compile(r"CSV parse error: (?:Row #(\d+): )?Expected (\d+) columns, got (\d+)")
_GZIP = b"\x1f\x8b"
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
    with path.open("rb") as stream:
        begins = stream.read(2)
    if begins == _GZIP:
        return "found a compressed file, wanted text: unpack it first"
    if begins in (BOM_UTF16_LE, BOM_UTF16_BE):
        # Spreadsheets write it. Its rows would be counted by bytes that are half a character.
        return NOT_UTF_8
    if fields := _FIELDS.search(text):
        row, wanted, found = fields.groups()
        place, noun = f"{_place(row)}: " if row else "", "field" if found == "1" else "fields"
        return f"{place}found {found} {noun}, wanted {wanted}, as many as the header has"
    if "straddling" in text:
        return f"found a row of more than {_BLOCK:,} bytes, wanted a shorter one"
    if "Empty CSV" in text:
        return "found an empty file, wanted a first line with the names of the columns"
    if value := _VALUE.search(text):
        column, row = value.groups()
        where = f"{_place(row)}, " if row else ""
        return f"{where}column {as_code(names_in_csv(path)[int(column)])}: {NOT_UTF_8}"
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
        begin = f" that begin with {as_code(begins.decode('latin-1'))}" if begins else ""
        return f"found {size:,} bytes{begin}, wanted a file that begins with `{magic.decode()}`"
    return f"{DAMAGED}: {text[:MAX_CHARACTERS]}"


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
        return _without_views(column)
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


def _without_views(column: pa.Array) -> pa.Array:
    try:
        return column.cast(pa.large_string())
    except pa.ArrowNotImplementedError:
        # The lowest pyarrow that is allowed casts no views.
        return pa.array(column.to_pylist(), pa.large_string())


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


_SECONDS = 60
_BYTES_A_SECOND = 50_000_000
_WAITING = 10
"""Seconds to wait for one of processor time."""
_CHECKED, _REFUSED = b".", b"!"
"""How the lines of the child begin."""


class UnfitFile(Exception):
    """A file whose content is not what Arrow files hold. The text says why."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(why)
        self.path = path


def arrow_schema(path: Path) -> pa.Schema:
    """Return the columns of an Arrow file."""
    with pa.OSFile(str(path)) as source, pa.ipc.open_file(source) as reader:
        return reader.schema


def read_arrow(path: Path, names: Iterable[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the record batches of an Arrow file, with the columns of some names, or with all."""
    schema = arrow_schema(path)
    fields = None if names is None else sorted(schema.get_field_index(name) for name in names)
    with pa.OSFile(str(path)) as source:
        options = pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False)
        with pa.ipc.open_file(source, options=options) as reader:
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number)


def check_arrow_files(paths: Sequence[Path]) -> None:
    """Read Arrow files in a child process, and validate all that they hold.

    Raises:
        UnfitFile: a file is damaged, or its check takes too much time or memory.
    """
    lines: list[bytes] = []
    try:
        child = Child(__name__)
        try:
            child.exchange(pickle.dumps([str(path) for path in paths]), _WAITING * _seconds(paths), lines.extend)
        finally:
            child.end()
    except NoOutput as error:
        why = f"the process that checked it failed: {error.reason}" if isinstance(error, Exited) else str(error)
        raise UnfitFile(paths[max(len(lines) - 1, 0)], f"{DAMAGED}: {why}; write it again") from None
    if lines and lines[-1].startswith(_REFUSED):
        raise UnfitFile(paths[len(lines) - 2], lines[-1].removeprefix(_REFUSED).decode().strip())


def fault_in(path: Path) -> str | None:
    """Return why an Arrow file is refused; None: all that it holds is valid. A damaged file can end the process."""
    try:
        for batch in read_arrow(path):
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                if fault := fault_of(column):
                    return f"column {as_code(name)}: {fault}"
            batch.validate(full=True)
    except MemoryError:
        return f"a record batch needs more than {MAX_MEMORY >> 30} GiB of memory: write it in smaller ones"
    except (pa.ArrowException, OSError, ValueError) as error:
        return reason(path, TableFormat.ARROW, error)
    return None


def _seconds(paths: Iterable[Path]) -> int:
    """Return how much processor time the check of some files may take."""
    return _SECONDS + sum(path.stat().st_size for path in paths) // _BYTES_A_SECOND


def main() -> None:
    """Check the files on standard input, up to the first that is refused."""
    paths = [Path(each) for each in pickle.load(sys.stdin.buffer)]
    limit_this_process(_seconds(paths))
    for path in paths:
        sys.stdout.buffer.write(_CHECKED + b"\n")
        sys.stdout.buffer.flush()
        if why := fault_in(path):
            sys.stdout.buffer.write(_REFUSED + why.encode(errors="replace") + b"\n")
            return


if __name__ == "__main__":
    main()
