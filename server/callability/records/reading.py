"""Reading records: from files, directories and streams, line by line, and what of them is lost or damaged."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from glob import glob
from pathlib import Path
from typing import Any, BinaryIO

from callability.contract.finding import as_code

FOLLOW_SECONDS = 0.5
"""How often files are looked at again."""
RECENT_SECONDS = 60.0
"""How old the record of a command may be that edited a file just now."""
BLOCK_BYTES = 1 << 20
"""How much of a file is read at once."""
_HEAD = re.compile(rb'\{"v":\d+,"n":(\d+),"kind":"(\w+)"')
_NAME = re.compile(r"(?P<process>(?P<kind>[a-z]+)-\d{8}T\d{9}Z-\d+)(?:-(?P<number>\d+))?\.jsonl")


class NoRecords(Exception):
    """Records cannot be read from there; the text says why."""


@dataclass(frozen=True, slots=True)
class _Source:
    """A file, or standard input; files of one process have the same `process`."""

    path: Path | None
    process: str = ""
    kind: str = ""
    number: int = 1

    @property
    def order(self) -> tuple[bool, str, int, str]:
        """Those of services last, so that it is known which of their decisions a gateway has recorded too."""
        return self.kind == "service", self.process, self.number, str(self.path)


def sources_of(arguments: Sequence[str]) -> tuple[_Source, ...]:
    """Return what arguments name: files, directories, patterns of files, and `-` for standard input.

    Raises:
        NoRecords: one of them names nothing.
    """
    found: list[_Source] = []
    for argument in arguments:
        if argument == "-":
            found.append(_Source(None))
            continue
        paths = [Path(argument)] if Path(argument).exists() else [Path(each) for each in sorted(glob(argument))]
        if not paths:
            raise NoRecords(f"{as_code(argument)} is neither a file nor a directory of records")
        for path in paths:
            found += map(_source, sorted(path.glob("*.jsonl")) if path.is_dir() else [path])
    return tuple(sorted(dict.fromkeys(found), key=lambda each: each.order))


def _source(path: Path) -> _Source:
    name = _NAME.fullmatch(path.name)
    if name is None:
        return _Source(path)
    return _Source(path, name["process"], name["kind"], int(name["number"] or 1))


@dataclass(slots=True)
class RecordReading:
    """Reads records, and counts what is lost.

    `damaged` lines are no records; `torn` ones are damaged and the last of a file. `lost` records are numbers that are
    missing within the files of a process, its first one included. `copies` are left out, since another file of the
    process has them. `unchecked` files have no name of a process: a number that is missing may be in another file.
    `unended` are processes whose last record is not that of their end: they still run, or were killed.
    """

    sources: tuple[_Source, ...]
    records: int = 0
    damaged: int = 0
    torn: int = 0
    lost: int = 0
    unended: int = 0
    copies: int = 0
    unchecked: int = 0
    files: int = 0
    _process: str = field(default="", init=False)
    _last: int | None = field(default=None, init=False)
    _ended: bool = field(default=True, init=False)

    @property
    def may_repeat(self) -> bool:
        """Whether a decision may be there twice: as the service recorded it, and as its caller did."""
        kinds = {each.kind for each in self.sources}
        return "" in kinds or ("service" in kinds and len(kinds) > 1)

    def lines(self) -> Iterator[bytes]:
        """Yield each record as it is written.

        Raises:
            NoRecords: a file cannot be read, or there are whole lines and none is a record.
        """
        for source in self.sources:
            if source.process != self._process or not source.process:
                self._finish()
                # The first files of a process may have been removed: then its numbers begin anywhere.
                self._process, self._last = source.process, 0 if source.number == 1 else None
                self._ended = not source.process
            self.unchecked += not source.process
            if source.path is None:
                yield from self._lines(sys.stdin.buffer, counted=False)
                continue
            try:
                with source.path.open("rb", BLOCK_BYTES) as file:
                    self.files += 1
                    yield from self._lines(file, counted=bool(source.process))
            except OSError as error:
                raise NoRecords(f"`{source.path}` cannot be read: {(error.strerror or 'error').lower()}") from None
        self._finish()
        self._process = ""
        # A process that was killed may have written nothing but the start of a line.
        if not self.records and self.damaged > self.torn:
            read = "1 line was read" if self.damaged == 1 else f"{self.damaged:,} lines were read"
            raise NoRecords(f"no line is a record: are these files of records? ({read})")

    def _lines(self, file: BinaryIO, *, counted: bool) -> Iterator[bytes]:
        read = self._last or 0
        for line in file:
            head = _HEAD.match(line)
            if not line.endswith(b"\n") or (head is None and "kind" not in (object_in(line) or {})):
                self.damaged += 1
                self.torn += not line.endswith(b"\n")
                continue
            if counted and head is not None:
                number = int(head[1])
                if number <= read:
                    self.copies += 1
                    continue
                if self._last is not None and number > self._last + 1:
                    self.lost += number - self._last - 1
                self._last, self._ended = max(number, self._last or 0), head[2] == b"end"
            self.records += 1
            yield line

    def _finish(self) -> None:
        self.unended += not self._ended
        self._ended = True


def object_in(line: bytes) -> dict[str, Any] | None:
    """Return the record on a line; None if there is none."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def follow_records(arguments: Sequence[str]) -> Iterator[bytes]:
    """Yield the records that are there, then each that is written, for ever; new files of a directory too.

    Raises:
        NoRecords: an argument names nothing, or a file cannot be read.
    """
    places: dict[Path, int] = {}
    while True:
        for source in sources_of(arguments):
            if source.path is None:
                raise NoRecords("`--follow` reads files, and not standard input")
            try:
                with source.path.open("rb") as file:
                    # A writer takes back what a full disk cut, and others empty a file in its place.
                    places[source.path] = min(places.get(source.path, 0), file.seek(0, os.SEEK_END))
                    file.seek(places[source.path])
                    for line in file:
                        if not line.endswith(b"\n"):
                            break
                        places[source.path] += len(line)
                        yield line
            except FileNotFoundError:
                continue
            except OSError as error:
                raise NoRecords(f"`{source.path}` cannot be read: {(error.strerror or 'error').lower()}") from None
        time.sleep(FOLLOW_SECONDS)


def recent_commands(directory: Path) -> frozenset[tuple[str, str]]:
    """Return the records of commands that edited files lately: the file of each, and the digest that it wrote."""
    found: set[tuple[str, str]] = set()
    for path in directory.glob("command-*.jsonl"):
        try:
            if time.time() - path.stat().st_mtime > RECENT_SECONDS:
                continue
            lines = path.read_bytes().splitlines()
        except OSError:
            continue
        records = filter(None, map(object_in, lines))
        found |= {(path.name, str(record["file"])) for record in records if "file" in record}
    return frozenset(found)
