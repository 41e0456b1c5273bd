"""The callers file while the service runs: an edit takes effect if it has no errors."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from pathlib import Path

from callability import document
from callability.finding import Finding, line
from callability.service.callers.authentication import Authentication
from callability.service.callers.callers_file import Callers, CallersRefused, load_callers
from callability.watching import looks

_logger = logging.getLogger(__name__)


class WatchedCallers:
    """The last good state of a callers file."""

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()
        self.callers = load_callers(path)
        self._seen = self.callers.digest
        self.authentication = Authentication(self.callers)
        _log(logging.WARNING, self.callers.warnings)
        self.changed: Callable[[bool], None] = lambda in_effect: None
        """Called after each edit, with whether it is in effect."""

    async def follow(self) -> None:
        """Read the file again when it changes, for ever."""
        async for _ in looks(lambda: (self._path,)):
            try:
                await asyncio.to_thread(self._look)
            except Exception:
                # For want of memory, say. The next look tries again.
                self._seen = ""
                _logger.exception("the callers could not be read")

    def _look(self) -> None:
        if (seen := _digest(self._path)) == self._seen:
            return
        self._seen = seen
        found = _loaded(self._path)
        if isinstance(found, CallersRefused):
            _log(logging.ERROR, found.findings)
            _logger.error("the edit of the callers is refused: the previous state stays in effect")
            self.changed(False)
            return
        self._seen = found.digest
        self.callers, self.authentication = found, Authentication(found)
        _log(logging.WARNING, found.warnings)
        _logger.info("the edit of the callers is applied: %d callers", len(found.every))
        self.changed(True)


def _loaded(path: Path) -> Callers | CallersRefused:
    try:
        return load_callers(path)
    except CallersRefused as refused:
        return refused


def _digest(path: Path) -> str:
    """Return the digest of a file; empty if it cannot be read."""
    try:
        return document.digest(document.read_bytes(path))
    except document.Refused:
        return ""


def _log(level: int, findings: Iterable[Finding]) -> None:
    for each in findings:
        _logger.log(level, "%s", line(each))
