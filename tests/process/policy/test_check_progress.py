"""The progress of a check, shown on a terminal."""

from __future__ import annotations

import os
import pty
import subprocess

from support.commands import callability
from support.running import COMMAND


def test_how_far_it_is_is_shown_on_a_terminal_and_nowhere_else() -> None:
    """On standard error: standard output stays the same."""
    ours, theirs = pty.openpty()
    command = [*COMMAND, "check"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, text=True) as process:
        os.close(theirs)
        shown = b"".join(iter(lambda: _read(ours), b""))
        report, _ = process.communicate(timeout=120)
    os.close(ours)
    assert b"deciding" in shown
    assert "deciding" not in report
    piped = callability("check")
    assert (piped.stdout, piped.stderr) == (report, "")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1024)
    except OSError:  # Linux says so of a terminal that nobody writes to any more
        return b""
