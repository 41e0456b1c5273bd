"""Noticing edits of files: their directories are watched, and polled as well."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from pathlib import Path

from watchfiles import awatch

LOOK_SECONDS = 5
"""Also without an event files are looked at: on some file systems none comes, and none does while watching begins."""
# It reports every change that it is notified of.
logging.getLogger("watchfiles").setLevel(logging.WARNING)
_logger = logging.getLogger(__name__)


async def looks(files: Callable[[], Iterable[Path]]) -> AsyncIterator[None]:
    """Yield whenever files may have been edited, and once at the beginning, for ever.

    `files` returns the current ones. An atomic edit puts a new file in the place of the old, and a link may
    lead elsewhere: what is watched are the directories in which they, and what links lead to, lie.
    """
    while True:
        try:
            async for _ in _changes(files):
                yield
        except (OSError, RuntimeError):
            _logger.exception("files cannot be watched: they are checked again in %d s", LOOK_SECONDS)
            await asyncio.sleep(LOOK_SECONDS)


async def _changes(files: Callable[[], Iterable[Path]]) -> AsyncIterator[None]:
    """Yield at changes in the directories of the files, until they lie elsewhere."""
    watched = _directories(files())
    # Without a filter: a link in the same directory may lead elsewhere, and a look costs little.
    changes = awatch(
        *watched, watch_filter=None, recursive=False, yield_on_timeout=True, rust_timeout=LOOK_SECONDS * 1000
    )
    yield
    async for _ in changes:
        yield
        if _directories(files()) != watched:
            return


def _directories(files: Iterable[Path]) -> dict[Path, tuple[int, int]]:
    """Return where files and what links lead to lie, and which directory it is: another one may come in its place."""
    found = {}
    for place in sorted({each.parent for path in files for each in (path, _led_to(path))}):
        with suppress(OSError):
            if place.is_dir():
                status = place.stat()
                found[place] = (status.st_dev, status.st_ino)
    return found


def _led_to(path: Path) -> Path:
    """Return what links lead to; links that lead to each other lead nowhere."""
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        return path
