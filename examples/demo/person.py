"""What a person does: run a command that was printed, answer its question, and edit a file of the policy."""

from __future__ import annotations

import os
import pty
import re
import subprocess
from pathlib import Path

from demo.scene import BIN

COMMAND = re.compile(r"`(callability [^`]+)`")
SECONDS = 120


class NoCommand(Exception):
    """A text names no command."""


def command_in(text: str) -> str:
    """Return the last command that a text of the gateway names.

    Raises:
        NoCommand: it names none.
    """
    commands: list[str] = COMMAND.findall(text)
    if not commands:
        raise NoCommand(text)
    return commands[-1]


def run(command: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a command as it was printed, at a terminal on which every question is answered with yes."""
    terminal, stdin = pty.openpty()
    try:
        os.write(terminal, b"y\n")
        return subprocess.run(
            ["sh", "-c", command],
            stdin=stdin,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
            env=environment | {"PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}"},
        )
    finally:
        os.close(terminal)
        os.close(stdin)


def replace(path: Path, old: str, new: str) -> None:
    """Replace the one place of a text in a file, whole, as an editor does."""
    content = path.read_text(encoding="utf-8")
    before, found, after = content.partition(old)
    if not found or old in after:
        raise ValueError(f"{path} does not have {old!r} once")
    draft = path.with_name(f".{path.name}")
    draft.write_text(f"{before}{new}{after}", encoding="utf-8")
    draft.replace(path)
