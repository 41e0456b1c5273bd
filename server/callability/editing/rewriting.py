"""Replacing a file that others read and write: atomically, and one change at a time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from callability import document
from callability.editing.edit import created, edited
from callability.editing.spelling import Tree
from callability.output_file import replacing


def rewrite(path: Path, tree: Tree | Callable[[], Tree], *, create: bool = False, touch: bool = False) -> bool:
    """Set values in a file, all of them or none, and return whether its content changed.

    A function returns the values while no other command can change the file.

    A symbolic link leads to the file that is changed. `create`: a file that does not exist is created. `touch`: the
    file is written even if its content stays the same, so that a program that follows it notices.

    Raises:
        document.Refused: the file cannot be read, or is not one well-formed document.
        EditRefused: a value cannot be set without touching something else.
        OSError: the file cannot be written; it is as it was.
    """
    target = path.resolve()
    with turn(target.parent):
        wanted = tree() if callable(tree) else tree
        if create and not target.exists():
            replace(target, created(target.name, wanted))
            return True
        old = document.read_bytes(target, str(path))
        new = edited(old, str(path), wanted)
        if touch or new != old:
            replace(target, new)
        return new != old


class ChangedMeanwhile(Exception):
    """A file is not the one that was read."""


def overwrite(path: Path, data: bytes, *, only_if: str) -> None:
    """Put data in the place of a file that still has a digest, or that is still not there where that is empty.

    Raises:
        ChangedMeanwhile: it is another file by now; nothing was written.
        document.Refused: the file cannot be read.
        OSError: the file cannot be written; it is as it was.
    """
    target = path.resolve()
    with turn(target.parent):
        now = document.digest(document.read_bytes(target, str(path))) if target.exists() else ""
        if now != only_if:
            raise ChangedMeanwhile(str(path))
        replace(target, data)


def replace(target: Path, data: bytes, *, mode: int | None = None) -> None:
    """Put a file in the place of another, if there is one, at once and with its owner and mode, or with a `mode`.

    Raises:
        OSError: it cannot be written; what was there is as it was.
    """
    with replacing(target, 0o666 if mode is None else mode) as file:
        if mode is not None:
            os.fchmod(file.fileno(), mode)
        file.write(data)


@contextmanager
def turn(directory: Path) -> Iterator[None]:
    """Wait until no other command changes a file of a directory; a file that is replaced cannot be waited for."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
