"""Arrow files, which are validated in a child process: a damaged one can end the process that reads it.

As a program, this is that child: it reads pickled paths from standard input, and writes a line before it reads each of
them. If a file is refused, the last line says why.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc

from callability.child_process.child import Child, Exited, NoOutput
from callability.child_process.limits import MAX_MEMORY, limit_this_process
from callability.columns.table_format import TableFormat
from callability.columns.unreadable import DAMAGED, reason
from callability.columns.validation import fault_of
from callability.finding import shown

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
                    return f"column {shown(name)}: {fault}"
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
