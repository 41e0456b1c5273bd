"""Documents that show commands, and what they print."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from support.running import forks_commands
from support.warm_program import shared_program

PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
"""By which a shell finds the `callability` of the tests."""


def command_path() -> str:
    """Return by which a shell finds a `callability` that forks from a process, where other commands of tests do."""
    return f"{shared_program().commands}{os.pathsep}{PATH}" if forks_commands() else PATH


def sessions_of(block: str) -> Iterator[tuple[str, str]]:
    """Yield each command of a console block with what is shown of its output."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, output


def pattern(shown: str) -> str:
    """Return what matches the output that is shown.

    A line of three dots stands for any lines; the engine and the revision are those of the machine and the day.
    """
    lines = []
    for line in shown.splitlines():
        found = re.sub(r"durable-rules \S+", "ENGINE", line)
        escaped = re.escape(found).replace("ENGINE", r"(durable-rules \S+|reference)")
        lines.append(r"(?s:.*)" if line == "..." else escaped.replace(r"revision\ \.\.\.", r"revision\ \w+") + r"\n")
    return "".join(lines)
