"""Files of a command: an output is written as a whole, a pipe or a device straight; an input must be a regular file.

Nothing here needs what reads YAML, which the base installation does not have.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


def read_regular(path: Path, most: int = -1) -> bytes:
    """Return the bytes of a regular file, at most so many.

    Raises:
        OSError: it cannot be read, or is no regular file: a pipe would be waited for.
    """
    with open(path, "rb", opener=_open) as stream:
        return stream.read(most)


def _open(name: str, flags: int) -> int:
    """Open a regular file and nothing else: a pipe would be waited for, and a device has no end."""
    opened = os.open(name, flags | os.O_NONBLOCK | os.O_NOCTTY)
    mode = os.fstat(opened).st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        os.close(opened)
        raise OSError(errno.EINVAL, "is not a regular file")
    return opened


PIPE_SECONDS = 10
"""How long to wait for a program that reads a named pipe."""
_MOST_LINKS = 40
"""Symbolic links that Linux follows in one path."""


class OutputRefused(Exception):
    """An output that cannot be written. Its text names the path and says why."""


@contextmanager
def output_to(path: Path, inputs: Iterable[Path] = ()) -> Iterator[BinaryIO]:
    """Yield a stream to a path; a file has all that was written once the block ends, or stays as it was after an error.

    A symbolic link leads to the file that is written. What is no regular file, or is a descriptor such as
    `/dev/stdout`, is written straight and stays what it is.

    Raises:
        OutputRefused: the path is one of the inputs, or cannot be written.
    """
    check_output(path, inputs)
    try:
        with _stream(path) as stream:
            yield stream
    except OSError as error:
        raise OutputRefused(f"`{path}` cannot be written: {(error.strerror or 'error').lower()}") from None


def check_output(path: Path, inputs: Iterable[Path]) -> None:
    """Check that an output is none of the inputs, by another name or a link either.

    Raises:
        OutputRefused: it is one of them.
    """
    if not os.path.isfile(path):
        return
    for each in inputs:
        if os.path.isfile(each) and os.path.samefile(path, each):
            which = "an input" if each == path else f"the input `{each}`"
            raise OutputRefused(f"`{path}` cannot be written: it is {which}; name another file")


@contextmanager
def replacing(target: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Yield a stream to what takes the place of a file as the block ends, at once and with its owner and mode.

    `mode` is that of a new file, less what the process masks.

    Raises:
        OSError: it cannot be written; what was there is as it was.
    """
    beside = target.with_name(f".{target.name[:50]}.{secrets.token_hex(8)}")
    old = target.stat() if target.exists() else None
    if old and not stat.S_ISREG(old.st_mode):
        raise OSError(errno.EINVAL, "is not a regular file")
    try:
        # Until it has the mode of the old one nobody else may open it: it may hold secrets.
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600 if old else mode)
        try:
            with os.fdopen(descriptor, "wb") as file:
                if old:
                    _take_after(old, descriptor)
                yield file
                file.flush()
                os.fsync(descriptor)
            beside.replace(target)
        except BaseException:
            beside.unlink()
            raise
    except OSError as error:
        # A person knows the file, and not what is beside it.
        if error.filename in (None, str(beside)):
            error.filename = str(target)
        raise


def descriptor_of(path: Path) -> int | None:
    """Return the descriptor of this process that a path stands for, as `/dev/stdout` does; None: it stands for none."""
    place = str(path)
    for _ in range(_MOST_LINKS):
        directory, name = os.path.realpath(os.path.dirname(place)), os.path.basename(place)
        if re.fullmatch(rf"/proc/{os.getpid()}(/task/\d+)?/fd", directory) and name.isdecimal():
            return int(name)
        if not os.path.islink(place):
            return None
        place = os.path.join(directory, os.readlink(place))
    return None


@contextmanager
def _stream(path: Path) -> Iterator[BinaryIO]:
    descriptor = descriptor_of(path)
    if descriptor is not None:
        # What was written to it before stays, and what is written to it later follows.
        with os.fdopen(os.dup(descriptor), "wb") as stream:
            yield stream
    elif path.is_fifo():
        with os.fdopen(_opened_pipe(path), "wb") as stream:
            yield stream
    elif path.exists() and not path.is_file():
        with path.open("wb") as stream:
            yield stream
    else:
        with replacing(Path(os.path.realpath(path))) as stream:
            yield stream


def _opened_pipe(path: Path) -> int:
    """Return a descriptor of a named pipe, once a program reads it; to wait for ever would say nothing.

    Raises:
        OSError: no program reads it in time.
    """
    until = time.monotonic() + PIPE_SECONDS
    while True:
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            if time.monotonic() > until:
                raise OSError(errno.ENXIO, f"no program has read this pipe for {PIPE_SECONDS} s") from None
            time.sleep(0.05)
        else:
            os.set_blocking(descriptor, True)
            return descriptor


def _take_after(old: os.stat_result, descriptor: int) -> None:
    # In this order: a change of the owner takes bits of the mode away.
    with suppress(PermissionError):
        os.fchown(descriptor, old.st_uid, old.st_gid)
    os.fchmod(descriptor, old.st_mode & 0o7777)
