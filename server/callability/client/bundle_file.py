"""Following a bundle in a file, which is replaced as a whole when a new one comes."""

from __future__ import annotations

import logging
from pathlib import Path
from threading import Event, Thread

from callability.client.held_policy import HeldPolicy
from callability.client.hooks import GuardedHooks
from callability.kernel.envelope import MAX_BYTES
from callability.regular_file import read_regular

POLL_SECONDS = 1.0
"""How often the file is looked at. Each look at a file that is as it was confirms the policy."""
CLOSE_SECONDS = 10.0

_Signature = tuple[int, int, int]


class BundleFile:
    """Keeps a policy current from a file, in a thread of its own."""

    def __init__(self, path: Path, held: HeldPolicy, hooks: GuardedHooks, *, rollback: bool) -> None:
        self._path = path
        self._held = held
        self._hooks = hooks
        self._rollback = rollback
        self._accepted: _Signature | None = None
        self._refused: _Signature | None = None
        self._why = ""
        self._closed = Event()
        self._thread = Thread(target=self._follow, daemon=True, name="callability-policy")

    def open(self) -> None:
        """Read the file, and begin to follow it."""
        self._look()
        self._thread.start()

    def close(self) -> None:
        """End, and wait for the thread."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join(CLOSE_SECONDS)

    def _follow(self) -> None:
        while not self._closed.wait(POLL_SECONDS):
            self._look()

    def _look(self) -> None:
        try:
            before = self._signature()
            if before == self._accepted:
                self._held.confirm()
                return
            if before == self._refused:
                return
            bundle = read_regular(self._path, MAX_BYTES + 1)
            # A file that changes while it is read is read again.
            whole = self._signature() == before
        except OSError as error:
            self._report(error.strerror or "error")
            return
        if whole and self._held.accept(bundle, rollback=self._rollback):
            self._accepted, self._refused = before, None
        elif whole:
            # It stays refused: the keys are the same, and a sequence number that was accepted never becomes lower.
            self._refused = before
        self._report("")

    def _signature(self) -> _Signature:
        found = self._path.stat()
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _report(self, why: str) -> None:
        if why and why != self._why:
            self._hooks.log(logging.ERROR, "bundle_unreadable", {"why": why})
        self._why = why
