"""The last good bundle on disk, for a start at which no service answers."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from callability.output_file import replacing
from callability.regular_file import read_regular

_MAGIC = b"callability kept bundle 1\n"
_MAX_HEAD = 4_096


@dataclass(frozen=True, slots=True)
class Kept:
    """A bundle from disk, and for how many seconds nothing has confirmed it; None if the clock went back since."""

    bundle: bytes
    age_seconds: float | None
    sequence: int


class KeptBundle:
    """A file with one bundle and the time of its last confirmation, by the wall clock. It is replaced as a whole."""

    def __init__(self, path: Path, wall_clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._wall_clock = wall_clock

    def read(self) -> Kept | None:
        """Return what the file holds; None if there is no file, or it is not whole.

        Raises:
            OSError: the file is there and cannot be read.
        """
        try:
            data = read_regular(self._path)
        except FileNotFoundError:
            return None
        magic, head, bundle = data[: len(_MAGIC)], *_split(data[len(_MAGIC) :])
        try:
            values = json.loads(head)
            confirmed_at, sequence = float(values["confirmed_at"]), int(values["sequence"])
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return None
        if magic != _MAGIC:
            return None
        age = self._wall_clock() - confirmed_at
        return Kept(bundle, age if age >= 0 else None, sequence)

    def write(self, bundle: bytes, sequence: int) -> None:
        """Put a bundle that is confirmed now in place of what the file holds; its directory is made if it is missing.

        Raises:
            OSError: it cannot be written; the file is then as it was.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)
        head = json.dumps({"confirmed_at": self._wall_clock(), "sequence": sequence}).encode()
        # A link leads to the file that is replaced.
        target = Path(os.path.realpath(self._path))
        with replacing(target, 0o600) as file:
            file.write(_MAGIC + head + b"\n" + bundle)
        _sync(target.parent)


def _split(data: bytes) -> tuple[bytes, bytes]:
    head = data[:_MAX_HEAD].partition(b"\n")[0]
    return head, data[len(head) + 1 :]


def _sync(directory: Path) -> None:
    """Make the replacement of a file in a directory last, even if the machine stops."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
