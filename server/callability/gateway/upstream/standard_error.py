"""Logs what a child writes on its standard error: a line each, masked, and at a limited rate."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections import deque
from collections.abc import Callable

from anyio.lowlevel import checkpoint

from callability.gateway.upstream.lines import CHUNK_BYTES
from callability.gateway.upstream.secrets import Secrets
from callability.log_output import fields

LINE_CHARACTERS = 1000
MOST_LINES = 200
"""How many lines are logged in any `WINDOW_SECONDS`."""
WINDOW_SECONDS = 10
LATEST = 20
AT_ONCE = 16
"""Lines between two turns of other tasks: what a child that has exited wrote last is soon read."""

_LINE_BYTES = 8 * LINE_CHARACTERS
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")
_logger = logging.getLogger("callability.gateway.upstream")


class StandardError:
    """Logs the lines of one child; after too many it pauses for `WINDOW_SECONDS`, then logs how many it left out.

    With `held` the lines are kept there, until `release`.
    """

    def __init__(
        self,
        name: str,
        secrets: Secrets,
        clock: Callable[[], float] = time.monotonic,
        held: deque[str] | None = None,
    ) -> None:
        self._name = name
        self._secrets = secrets
        self._clock = clock
        self._logged: deque[float] = deque(maxlen=MOST_LINES)
        self._left_out = 0
        self._held = held
        self.latest: deque[str] = deque(maxlen=LATEST)
        """The lines that were logged or held last."""

    def release(self) -> None:
        """Log the lines that were held; later ones are logged at once."""
        held, self._held = self._held or (), None
        for text in held:
            self._write(text)

    async def follow(self, stream: asyncio.StreamReader) -> None:
        """Log what a stream brings, to its end."""
        rest = b""
        try:
            while chunk := await stream.read(CHUNK_BYTES):
                *lines, rest = (rest + chunk).split(b"\n")
                # One byte more than is read of a line shows that it was cut.
                rest = rest[: _LINE_BYTES + 1]
                for place, line in enumerate(lines):
                    self.log(line)
                    if place % AT_ONCE == 0:
                        await checkpoint()
            if rest:
                self.log(rest)
        finally:
            self._report_left_out()

    def log(self, line: bytes) -> None:
        """Log a line, or count it among those that are left out."""
        now = self._clock()
        if self._is_enough(now):
            self._left_out += 1
            return
        self._report_left_out()
        self._logged.append(now)
        read = line[:_LINE_BYTES].decode("utf-8", "replace").rstrip()
        text = self._secrets.masked(read, cut=len(line) > _LINE_BYTES)
        said = _CONTROL.sub("?", text[:LINE_CHARACTERS])
        self.latest.append(said)
        self._write(said)

    def _write(self, text: str) -> None:
        if self._held is None:
            _logger.info("`%s` stderr: %s", self._name, text, extra=fields(server=self._name))
        else:
            self._held.append(text)

    def _is_enough(self, now: float) -> bool:
        if self._left_out:
            return now - self._logged[-1] < WINDOW_SECONDS
        return len(self._logged) == MOST_LINES and now - self._logged[0] < WINDOW_SECONDS

    def _report_left_out(self) -> None:
        if self._left_out and self._held is None:
            words, about = "`%s` wrote too much on standard error: %d lines are left out", fields(server=self._name)
            _logger.warning(words, self._name, self._left_out, extra=about)
            self._left_out = 0
