"""Writing records: a bounded queue, a thread that writes blocks, and files that are rotated within a total.

A decision appends a line and goes on: no disk, pipe or lock of another process is waited for. What does not fit into
the queue, or cannot be written, is dropped and counted.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import re
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from callability.contract.finding import as_code
from callability.process.logs import LogInterval
from callability.records.format import VERSION, Clock, members

STANDARD_OUTPUT = "-"
QUEUE_LINES = 20_000
QUEUE_CHARACTERS = 16 * 1024 * 1024
"""What waits to be written at most; a line beyond it is dropped."""
GATHER_SECONDS = 0.05
"""How long the thread waits for more lines before it writes a block."""
STOP_SECONDS = 2.0
"""How long the end of a process waits for the last block."""
PIPE_BYTES = 4_096
"""Bytes that are written to a pipe at once, so that lines of several processes do not mix."""
RETRY_SECONDS = 1.0
"""How long a directory that cannot be written is left alone."""
MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_FILE_SECONDS = 86_400.0
"""When a file is closed and the next one begun."""
SHARE = 8
"""A file has at most this share of the directory's total."""
_FILE_NAME = re.compile(r"[a-z]+-\d{8}T\d{9}Z-\d+(?:-\d+)?\.jsonl")
_LOCK = ".lock"
_logger = logging.getLogger(__name__)


class DestinationRefused(Exception):
    """Records cannot go there; the text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Destination:
    """Where records go: `-`, or a directory with a total size and an age at which its files are removed."""

    place: str
    total_bytes: int = 1024 * 1024 * 1024
    days: int = 30

    @property
    def is_standard_output(self) -> bool:
        """Whether records go to standard output."""
        return self.place == STANDARD_OUTPUT

    def check(self) -> None:
        """Make the directory if it is not there, and check that it is this user's alone.

        Raises:
            DestinationRefused: it is another user's, open to others, or cannot be used.
        """
        if self.is_standard_output:
            return
        path = Path(self.place)
        try:
            path.mkdir(mode=0o700, exist_ok=True)
            status = path.stat()
        except OSError as error:
            why = "not a directory" if isinstance(error, FileExistsError) else (error.strerror or "error").lower()
            raise DestinationRefused(f"records cannot be written to {as_code(self.place)}: {why}") from None
        if status.st_uid != os.geteuid():
            found = f"{as_code(self.place)} belongs to user {status.st_uid}, and records go to a directory of one's own"
            raise DestinationRefused(f"{found}: name another directory")
        if stat.S_IMODE(status.st_mode) & 0o077:
            found = f"{as_code(self.place)} is open to others, as its mode is {stat.S_IMODE(status.st_mode):03o}"
            raise DestinationRefused(f"{found}: run chmod 700 on it")


class _Output(Protocol):
    def write(self, block: bytes) -> None:
        """Write whole lines, or none of them.

        Raises:
            OSError: they cannot be written.
        """

    def close(self) -> None:
        """Let go of it."""


class RecordWriter:
    """Numbers lines and writes them by a thread of its own, which starts with the first line.

    Any thread may append.
    """

    def __init__(self, destination: Destination, kind: str) -> None:
        self._output: _Output = _Pipe() if destination.is_standard_output else _Files(destination, kind)
        self._clock = Clock()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._lines: list[str] = []
        self._size = 0
        self._dropped_after = 0
        self._thread: threading.Thread | None = None
        self._closing = False
        self._number = 0
        self._interval = LogInterval()
        self.written = 0
        """Records that were written."""
        self.dropped = 0
        """Records that are lost: the queue was full, or the place cannot be written."""

    def append(self, line: str) -> None:
        """Append the members of a record, without those that every record has; never wait for a disk."""
        with self._lock:
            if len(self._lines) >= QUEUE_LINES or self._size + len(line) > QUEUE_CHARACTERS:
                self._dropped_after += 1
                self.dropped += 1
                return
            self._lines.append(line)
            self._size += len(line)
        if not self._wake.is_set():
            self._begin()

    def close(self) -> None:
        """Write what waits, within `STOP_SECONDS`, and how many records there were."""
        with self._lock:
            self._closing = True
        self._begin()
        if self._thread is not None:
            self._thread.join(STOP_SECONDS)

    def _begin(self) -> None:
        self._wake.set()
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    # A daemon: a pipe that nobody reads must not keep the process.
                    self._thread = threading.Thread(target=self._run, name="callability-records", daemon=True)
                    self._thread.start()

    def _run(self) -> None:
        while True:
            self._wake.wait()
            if not self._closing:
                time.sleep(GATHER_SECONDS)
            self._wake.clear()
            self._write()
            if self._closing and not self._lines:
                self._end()
                return

    def _write(self) -> None:
        with self._lock:
            lines, self._lines, self._size = self._lines, [], 0
            dropped, self._dropped_after = self._dropped_after, 0
        if lines:
            first = self._number + 1
            head = f'{{"v":{VERSION},"n":'
            block = "".join([f"{head}{number},{line}}}\n" for number, line in enumerate(lines, first)])
            self._number += len(lines)
            try:
                self._output.write(block.encode("ascii"))
                self.written += len(lines)
            except OSError as error:
                self.dropped += len(lines)
                self._report(error.strerror or "error", len(lines))
        if dropped:
            # Nothing was appended between the first of them and this block.
            self._number += dropped
            self._report("more come than can be written", dropped)

    def _end(self) -> None:
        self._number += 1
        about = members({"kind": "end", "time": self._clock.now(), "written": self.written, "dropped": self.dropped})
        try:
            self._output.write(f'{{"v":{VERSION},"n":{self._number},{about}}}\n'.encode("ascii"))
        except OSError as error:
            self._report(error.strerror or "error", 1)
        self._output.close()

    def _report(self, why: str, lost: int) -> None:
        if self._interval.due("dropped"):
            words = "records are lost: %s; %d now, and %d since the start"
            _logger.error(words, why.lower(), lost, self.dropped)


class _Pipe:
    """Standard output; as much is written at once as a pipe takes without mixing the lines of several processes."""

    def write(self, block: bytes) -> None:
        start = 0
        while start < len(block):
            end = block.rfind(b"\n", start, start + PIPE_BYTES) + 1
            if not end:
                end = block.index(b"\n", start) + 1
            while start < end:
                start += os.write(1, block[start:end])

    def close(self) -> None:
        """Leave it open: it is not ours."""


class _Files:
    """The files of one process in a directory that several processes share."""

    def __init__(self, destination: Destination, kind: str) -> None:
        self._directory = Path(destination.place).absolute()
        self._total = destination.total_bytes
        self._seconds = destination.days * 86_400.0
        self._file_bytes = min(MAX_FILE_BYTES, max(1, self._total // SHARE))
        moment = time.time()
        start = time.strftime("%Y%m%dT%H%M%S", time.gmtime(moment)) + f"{int(moment * 1_000) % 1_000:03d}Z"
        self._stem = f"{kind}-{start}-{os.getpid()}"
        self._files = 0
        self._descriptor = -1
        self._size = 0
        self._until = 0.0
        self._not_before = 0.0

    def write(self, block: bytes) -> None:
        start = 0
        while start < len(block):
            self._open_next(len(block) - start)
            room = self._file_bytes - self._size
            end = len(block) if len(block) - start <= room else block.rfind(b"\n", start, start + room) + 1
            if end <= start:
                end = block.index(b"\n", start) + 1
            self._put(block[start:end])
            start = end

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _open_next(self, wanted: int) -> None:
        """Open another file if there is none, or if this one is full, old or removed."""
        if self._descriptor >= 0:
            whole = self._size and self._size + min(wanted, PIPE_BYTES) > self._file_bytes
            if not whole and time.monotonic() < self._until and os.fstat(self._descriptor).st_nlink:
                return
            self.close()
        if time.monotonic() < self._not_before:
            raise OSError(errno.EAGAIN, "the directory could not be written a moment ago")
        try:
            self._open()
        except OSError:
            self._not_before = time.monotonic() + RETRY_SECONDS
            raise

    def _open(self) -> None:
        with _turn(self._directory):
            self._remove_old()
            number = self._files + 1
            name = f"{self._stem}.jsonl" if number == 1 else f"{self._stem}-{number}.jsonl"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
            descriptor = os.open(self._directory / name, flags, 0o600)
            # Whoever removes old files leaves those alone that are locked.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        self._descriptor, self._size, self._files = descriptor, 0, number
        self._until = time.monotonic() + MAX_FILE_SECONDS

    def _put(self, lines: bytes) -> None:
        written = 0
        try:
            while written < len(lines):
                written += os.write(self._descriptor, lines[written:])
        except OSError:
            # Half a line would spoil the next one.
            os.ftruncate(self._descriptor, self._size)
            raise
        self._size += len(lines)

    def _remove_old(self) -> None:
        """Remove the oldest files beyond the total, and those beyond their age; a file in use counts as full."""
        found = sorted(
            (path for path in self._directory.iterdir() if _FILE_NAME.fullmatch(path.name)),
            key=lambda path: (path.name.split("-")[1], path.name),
        )
        room = self._total - self._file_bytes
        closed: list[tuple[Path, os.stat_result]] = []
        for path in found:
            status = path.lstat()
            if not stat.S_ISREG(status.st_mode):
                continue
            if _is_locked(path):
                room -= max(status.st_size, self._file_bytes)
            else:
                closed.append((path, status))
        used = sum(status.st_size for _, status in closed)
        oldest = time.time() - self._seconds
        for path, status in closed:
            if used > room or status.st_mtime < oldest:
                path.unlink(missing_ok=True)
                used -= status.st_size


@contextmanager
def _turn(directory: Path) -> Iterator[None]:
    """Wait until no other process opens or removes files of a directory of records."""
    descriptor = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _is_locked(path: Path) -> bool:
    """Say whether a process still writes a file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
