"""Tables in files: Parquet, Arrow IPC, CSV and JSON lines, read batch by batch."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.ipc
import pyarrow.json
import pyarrow.parquet

from callability.columns.decoding import decoded, decoded_schema, plain_type
from callability.columns.fact_column import UnfitColumn
from callability.columns.table_format import TableFormat
from callability.columns.unreadable import MAX_CHARACTERS, reason

BATCH_ROWS = 1 << 16
_READ_BYTES = 1 << 20
"""Bytes of a column of a Parquet file that are read at once."""
_REMOTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_NULLS = ["", "NULL", "null"]


class TableRefused(Exception):
    """A file that cannot be read as a table, or written. Its text names the file and says why."""


ENDINGS = {
    ".parquet": TableFormat.PARQUET,
    ".pq": TableFormat.PARQUET,
    ".arrow": TableFormat.ARROW,
    ".feather": TableFormat.ARROW,
    ".csv": TableFormat.CSV,
    ".jsonl": TableFormat.JSON_LINES,
    ".ndjson": TableFormat.JSON_LINES,
}


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file with a table."""

    path: Path
    format: TableFormat

    def batches(self, facts: pa.Schema) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Return the columns of the file and its rows. The columns of facts are read as `facts` has them.

        Texts are dictionary-encoded as they are read. In CSV an empty field, NULL and null are null, unless quoted.

        Raises:
            TableRefused: the file cannot be read, also while it is read.
        """
        with self._refused():
            dataset = self._dataset(facts)
            schema = dataset.schema
            # Names of columns are decoded here, and may not be UTF-8.
            _ = schema.names
        return schema, self._scan(dataset)

    def _dataset(self, facts: pa.Schema) -> pa.dataset.Dataset:
        whole = pa.dataset.dataset(self.path, format=self._format(facts, ()))
        texts = [each.name for each in whole.schema if pa.types.is_string(each.type)]
        if self.format is TableFormat.PARQUET:
            return pa.dataset.dataset(self.path, format=self._format(facts, texts))
        if self.format is TableFormat.JSON_LINES:
            # Its reader does not encode texts: that is done for each batch.
            fields = [facts.field(f.name) if f.name in facts.names else f for f in whole.schema]
            plain = [f.with_type(pa.string()) if pa.types.is_dictionary(f.type) else f for f in fields]
            return pa.dataset.dataset(self.path, schema=pa.schema(plain), format=self._format(facts, ()))
        return whole

    def _format(self, facts: pa.Schema, texts: Sequence[str]) -> pa.dataset.FileFormat:
        match self.format:
            case TableFormat.PARQUET:
                return pa.dataset.ParquetFileFormat(dictionary_columns=list(texts))
            case TableFormat.ARROW:
                return pa.dataset.IpcFileFormat()
            case TableFormat.JSON_LINES:
                return pa.dataset.JsonFileFormat()
            case TableFormat.CSV:
                options = pa.csv.ConvertOptions(
                    column_types={each.name: each.type for each in facts},
                    null_values=_NULLS,
                    true_values=["true", "True", "TRUE"],
                    false_values=["false", "False", "FALSE"],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                )
                return pa.dataset.CsvFileFormat(convert_options=options)

    def _scan(self, dataset: pa.dataset.Dataset) -> Iterator[pa.RecordBatch]:
        with self._refused():
            if self.format is TableFormat.PARQUET:
                # A dataset decodes whole row groups, several at once, and they may have a million rows each.
                texts = [each.name for each in dataset.schema if pa.types.is_dictionary(each.type)]
                with pa.parquet.ParquetFile(
                    self.path, read_dictionary=texts, buffer_size=_READ_BYTES, pre_buffer=False
                ) as file:
                    yield from file.iter_batches(batch_size=BATCH_ROWS)
            else:
                yield from dataset.to_batches(batch_size=BATCH_ROWS, batch_readahead=2, fragment_readahead=1)

    @contextmanager
    def _refused(self) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            why = reason(self.path, self.format, error)
            raise TableRefused(f"{self.path}: cannot be read as {self.format}: {why}") from None


def table_files(names: Iterable[str]) -> tuple[TableFile, ...]:
    """Return the files that some names stand for: files, directories, and patterns with `*`, `?` and `**`.

    The files of a directory, at any depth, and those of a pattern are in the order of their paths.

    Raises:
        TableRefused: a name stands for nothing that can be read.
    """
    found: dict[Path, TableFile] = {}
    for name in names:
        if _REMOTE.match(name):
            raise TableRefused(f"{name}: only local files are read; copy it to this machine")
        for path in _paths(name):
            found.setdefault(path, TableFile(path, format_of(path)))
    return tuple(found.values())


def format_of(path: Path) -> TableFormat:
    """Return the format of a file.

    Raises:
        TableRefused: the ending of its name is not known.
    """
    try:
        return ENDINGS[path.suffix.lower()]
    except KeyError:
        raise TableRefused(f"{path}: the name must end in {', '.join(ENDINGS)}") from None


def output_format(path: Path) -> TableFormat:
    """Return the format in which a file is written.

    Raises:
        TableRefused: the ending of its name is not that of a format that is written.
    """
    form = ENDINGS.get(path.suffix.lower(), TableFormat.JSON_LINES)
    if form is TableFormat.JSON_LINES:
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
    if path.exists():
        return [path]
    matched = sorted(Path(each) for each in glob.glob(name, recursive=True) if Path(each).is_file())
    if not matched:
        what = "no file has such a name" if glob.has_magic(name) else "there is no such file"
        raise TableRefused(f"{name}: {what}")
    return matched


@contextmanager
def table_writer(path: Path, schema: pa.Schema) -> Iterator[pa.RecordBatchWriter]:
    """Yield what writes record batches to a file; if the block ends with an error, there is no file.

    Raises:
        TableRefused: the file cannot be written, or its format holds no tables of this kind.
    """
    beside = path.with_name(f".{path.name}.part")
    try:
        with _writer(beside, output_format(path), schema) as writer:
            yield writer
        beside.replace(path)
    except (pa.ArrowException, OSError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or " ".join(str(error).split())
        raise TableRefused(f"{path}: cannot be written: {why[:MAX_CHARACTERS].lower()}") from None
    finally:
        beside.unlink(missing_ok=True)


def _writer(path: Path, form: TableFormat, schema: pa.Schema) -> pa.RecordBatchWriter:
    match form:
        case TableFormat.PARQUET:
            return pa.parquet.ParquetWriter(path, schema)
        case TableFormat.ARROW:
            return _PlainWriter(pa.ipc.new_file(path, decoded_schema(schema)))
        case _:
            return _PlainWriter(pa.csv.CSVWriter(path, decoded_schema(schema)))


class _PlainWriter:
    """Writes texts as they are: CSV has no dictionaries, and an Arrow file has one for all batches, which differ."""

    def __init__(self, writer: pa.RecordBatchWriter | pa.csv.CSVWriter) -> None:
        self._writer = writer

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Write the rows of a batch."""
        self._writer.write_batch(decoded(batch))

    def __enter__(self) -> _PlainWriter:
        """Return the writer."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self._writer.close()


def kept_as(batch: pa.RecordBatch, names: Sequence[str], schema: pa.Schema, path: Path) -> pa.RecordBatch:
    """Return a batch whose kept columns have the types of another schema.

    Raises:
        UnfitColumn: a column is missing, or its values have no place in the other type.
    """
    for name in names:
        place = batch.schema.get_field_index(name)
        if place < 0:
            raise UnfitColumn(f"{path}: there is no column `{name}`, which the first file has")
        wanted = schema.field(name).type
        if batch.column(place).type != wanted:
            try:
                column = batch.column(place).cast(plain_type(wanted))
                column = column.dictionary_encode().cast(wanted) if pa.types.is_dictionary(wanted) else column
            except pa.ArrowException as error:
                raise UnfitColumn(f"{path}: column `{name}`: {' '.join(str(error).split())[:200]}") from None
            batch = batch.set_column(place, name, column)
    return batch
