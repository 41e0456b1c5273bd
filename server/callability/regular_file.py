"""Reading a file that is one: nothing here needs what reads YAML, which the base installation does not have."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def read_regular(path: Path, most: int = -1) -> bytes:
    """Return the bytes of a regular file, at most so many.

    Raises:
        OSError: it cannot be read, or is no regular file: a pipe would be waited for.
    """
    with open(path, "rb", opener=_opened) as stream:
        return stream.read(most)


def _opened(name: str, flags: int) -> int:
    """Open a regular file and nothing else: a pipe would be waited for, and a device has no end."""
    opened = os.open(name, flags | os.O_NONBLOCK | os.O_NOCTTY)
    mode = os.fstat(opened).st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        os.close(opened)
        raise OSError(errno.EINVAL, "is not a regular file")
    return opened
