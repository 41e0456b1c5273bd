"""Tables in files: Parquet, Arrow IPC, CSV and JSON lines, read batch by batch."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet

from callability.contract.finding import as_code
from callability.process.regular_file import OutputRefused, output_to
from callability.tables import formats
from callability.tables.fact_column import UnfitColumn
from callability.tables.verdict_columns import ColumnCheck, one_line

BATCH_ROWS = 1 << 16
_READ_BYTES = 1 << 20
"""Bytes of a column of a Parquet file that are read at once."""
_REMOTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


class TableRefused(Exception):
    """A file that cannot be read as a table. Its text names the file and says why."""


ENDINGS = {
    ".parquet": formats.TableFormat.PARQUET,
    ".pq": formats.TableFormat.PARQUET,
    ".arrow": formats.TableFormat.ARROW,
    ".feather": formats.TableFormat.ARROW,
    ".csv": formats.TableFormat.CSV,
    ".jsonl": formats.TableFormat.JSON_LINES,
    ".ndjson": formats.TableFormat.JSON_LINES,
}


_PACKED = frozenset((".gz", ".bz2", ".xz", ".zst", ".zip"))
_UNPACK = " (unpack it first)"


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file with a table."""

    path: Path
    format: formats.TableFormat

    @property
    def is_empty_json(self) -> bool:
        """Whether it is a file for JSON lines with nothing in it."""
        return self.format is formats.TableFormat.JSON_LINES and not self.path.stat().st_size

    def schema(self, facts: pa.Schema, kept: Sequence[str] = ()) -> pa.Schema:
        """Return the columns of the file as they are read; in CSV and JSON lines facts have the types of `facts`.

        JSON lines without a row lack no column: they have those of `facts`, and those that are `kept`.

        Raises:
            TableRefused: the file cannot be read.
        """
        with self._refuse_unreadable():
            match self.format:
                case formats.TableFormat.PARQUET:
                    found = pa.parquet.read_schema(self.path)
                    found = pa.schema([_encode(field) for field in found], found.metadata)
                case formats.TableFormat.ARROW:
                    found = formats.arrow_schema(self.path)
                case formats.TableFormat.CSV:
                    found = formats.text_schema(formats.names_in_csv(self.path), facts)
                case formats.TableFormat.JSON_LINES:
                    names = formats.names_in_json_lines(self.path) or dict.fromkeys((*facts.names, *kept))
                    found = formats.text_schema(names, facts)
            # Names of columns are decoded here, and may not be UTF-8.
            _ = found.names
            return pa.schema([field.with_type(formats.plain_form_type(field.type)) for field in found], found.metadata)

    def check_text(self) -> None:
        """Check that each row of a CSV file ends where a line does, whatever is in quotes.

        Raises:
            TableRefused: a quote is not closed, or the file cannot be read.
        """
        if self.format is formats.TableFormat.CSV:
            with self._refuse_unreadable():
                formats.check_quotes(self.path)

    def batches(self, facts: pa.Schema, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield some of the columns of the file: at least one batch, which may be empty. The others are not read.

        Texts are dictionary-encoded as they are read, or plain. In CSV an empty field is null, unless it is quoted, and
        so are NULL and null in the column of a fact.

        Raises:
            TableRefused: the file cannot be read.
        """
        # What reads a fact validates its column, and other readers give valid texts or have validated all.
        others = [
            name for name in wanted.names if name not in facts.names and self.format is formats.TableFormat.PARQUET
        ]
        checks, empty = {name: ColumnCheck() for name in others}, True
        with self._refuse_unreadable():
            for batch in self._read(facts, wanted.names):
                empty = False
                for name, check in checks.items():
                    if fault := check.fault_of(batch.column(name)):
                        raise self._refusal(f"column {as_code(name)}: {fault}")
                columns = [formats.plain_form(batch.column(name)) for name in wanted.names]
                yield pa.RecordBatch.from_arrays(columns, schema=wanted)
        if empty:
            yield pa.RecordBatch.from_pylist([], schema=wanted)

    def _read(self, facts: pa.Schema, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        match self.format:
            case formats.TableFormat.PARQUET:
                texts = [each.name for each in pa.parquet.read_schema(self.path) if pa.types.is_string(each.type)]
                # Without a buffer of its own, it reads whole row groups, and they may have a million rows each.
                with pa.parquet.ParquetFile(
                    self.path, read_dictionary=texts, buffer_size=_READ_BYTES, pre_buffer=False
                ) as file:
                    yield from file.iter_batches(batch_size=BATCH_ROWS, columns=list(names))
            case formats.TableFormat.ARROW:
                for batch in formats.read_arrow(self.path, names):
                    yield from (batch.slice(start, BATCH_ROWS) for start in range(0, batch.num_rows, BATCH_ROWS))
            case formats.TableFormat.CSV:
                yield from formats.read_csv(self.path, facts, names)
            case formats.TableFormat.JSON_LINES:
                yield from formats.read_json_lines(self.path, facts, names)

    @contextmanager
    def _refuse_unreadable(self) -> Iterator[None]:
        try:
            yield
        except formats.UnfitText as error:
            raise self._refusal(str(error)) from None
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise self._refusal(formats.reason(self.path, self.format, error)) from None

    def _refusal(self, why: str) -> TableRefused:
        return TableRefused(f"{self.path}: cannot be read as {self.format}: {why}")


def _encode(field: pa.Field) -> pa.Field:
    """Return a field of Parquet as it is read: texts with a dictionary."""
    return field.with_type(pa.dictionary(pa.int32(), pa.string())) if pa.types.is_string(field.type) else field


def table_files(names: Iterable[str]) -> tuple[TableFile, ...]:
    """Return the files that some names stand for: files, directories, and patterns with `*`, `?` and `**`.

    The files of a directory, at any depth, and those of a pattern are in the order of their paths. Arrow files, and
    the quotes of CSV files, are checked here.

    Raises:
        TableRefused: a name stands for nothing that can be read.
    """
    found: dict[Path, TableFile] = {}
    for name in names:
        if _REMOTE.match(name):
            raise TableRefused(f"{name}: only local files are read; copy it to this machine")
        for path in _paths(name):
            found.setdefault(path, TableFile(path, format_of(path)))
    for file in found.values():
        file.check_text()
    # Without a row, JSON lines have no columns that others could be compared with.
    with_columns = {path: file for path, file in found.items() if not file.is_empty_json} or found
    if arrow := [path for path, file in found.items() if file.format is formats.TableFormat.ARROW]:
        try:
            formats.check_arrow_files(arrow)
        except formats.UnfitFile as error:
            raise TableRefused(f"{error.path}: cannot be read as {formats.TableFormat.ARROW}: {error}") from None
    return tuple(with_columns.values())


def format_of(path: Path) -> formats.TableFormat:
    """Return the format of a file.

    Raises:
        TableRefused: the ending of its name is not known.
    """
    try:
        return ENDINGS[path.suffix.lower()]
    except KeyError:
        export = "(`callability diff --inventory` reads what `callability inventory` writes)"
        hint = f" {export}" if path.suffix.lower() == ".json" else _UNPACK if path.suffix.lower() in _PACKED else ""
        raise TableRefused(f"{path}: the name must end in {', '.join(ENDINGS)}{hint}") from None


def output_format(path: Path) -> formats.TableFormat:
    """Return the format in which a file is written.

    Raises:
        TableRefused: the ending of its name is not that of a format that is written.
    """
    form = ENDINGS.get(path.suffix.lower(), formats.TableFormat.JSON_LINES)
    if form is formats.TableFormat.JSON_LINES:
        raise TableRefused(f"{path}: the name of an output must end in .parquet, .arrow or .csv")
    return form


def _paths(name: str) -> Sequence[Path]:
    path = Path(name)
    if path.is_dir():
        # A hidden file, or one whose name begins with an underscore, is no data: other programs leave them.
        inside = (each for each in sorted(path.rglob("*")) if each.is_file() and each.name[0] not in "._")
        files = [each for each in inside if each.suffix.lower() in ENDINGS]
        if not files:
            raise TableRefused(f"{name}: the directory has no file that ends in {', '.join(ENDINGS)}")
        return files
    if path.is_file():
        return [path]
    if path.exists() or name == "-":
        raise TableRefused(f"{name}: is not a regular file; a table is read more than once: write it to a file first")
    matched = sorted(Path(each) for each in glob.glob(name, recursive=True) if Path(each).is_file())
    if not matched:
        what = "no file has such a name" if glob.has_magic(name) else "there is no such file"
        raise TableRefused(f"{name}: {what}")
    return matched


@contextmanager
def table_writer(path: Path, schema: pa.Schema) -> Iterator[pa.RecordBatchWriter]:
    """Yield what writes record batches to a file; if the block ends with an error, the file is as it was.

    Raises:
        OutputRefused: the file cannot be written, or its format holds no tables of this kind.
    """
    form = output_format(path)
    try:
        with output_to(path) as stream, _writer(stream, form, schema) as writer:
            yield writer
    except pa.ArrowException as error:
        unfit = next((field for field in schema if not _holds(form, field)), None)
        if unfit is None:
            why = one_line(error).lower()
        else:
            why = f"{form} has no column of the type {unfit.type}, as {as_code(unfit.name)} is"
            why = f"{why}; choose columns with `--keep`, or another format"
        raise OutputRefused(f"`{path}` cannot be written: {why}") from None


def _holds(form: formats.TableFormat, field: pa.Field) -> bool:
    """Say whether a format has columns of the type of a field."""
    schema = pa.schema([field])
    try:
        with _writer(BytesIO(), form, schema) as writer:
            writer.write_batch(pa.RecordBatch.from_pylist([], schema=schema))
    except pa.ArrowException:
        return False
    return True


def _writer(stream: BinaryIO, form: formats.TableFormat, schema: pa.Schema) -> pa.RecordBatchWriter:
    match form:
        case formats.TableFormat.PARQUET:
            return pa.parquet.ParquetWriter(stream, schema)
        case formats.TableFormat.ARROW:
            return _PlainWriter(pa.ipc.new_file(stream, formats.decoded_schema(schema)))
        case _:
            return _PlainWriter(pa.csv.CSVWriter(stream, formats.decoded_schema(schema)))


class _PlainWriter:
    """Writes texts as they are: CSV has no dictionaries, and an Arrow file has one for all batches, which differ."""

    def __init__(self, writer: pa.RecordBatchWriter | pa.csv.CSVWriter) -> None:
        self._writer = writer

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Write the rows of a batch."""
        self._writer.write_batch(formats.decoded(batch))

    def __enter__(self) -> _PlainWriter:
        """Return the writer."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self._writer.close()


def kept_as(batch: pa.RecordBatch, names: Sequence[str], schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch whose kept columns have the types of a schema.

    Raises:
        UnfitColumn: the values of a column have no place in the other type.
    """
    for name in names:
        place, wanted = batch.schema.get_field_index(name), schema.field(name).type
        column = batch.column(place)
        if column.type != wanted:
            try:
                cast = column.cast(formats.plain_type(column.type)).cast(formats.plain_type(wanted))
                cast = cast.dictionary_encode().cast(wanted) if pa.types.is_dictionary(wanted) else cast
            except pa.ArrowException as error:
                found = f"found the type {column.type}, wanted {wanted}, as in the first file ({one_line(error)})"
                raise UnfitColumn(f"column `{name}`: {found}; choose columns with `--keep`") from None
            batch = batch.set_column(place, name, cast)
    return batch
