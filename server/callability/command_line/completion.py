"""Shell completion: which command a shell completes, so that its module alone is imported."""

from __future__ import annotations

from collections.abc import Mapping

COMPLETING = "_CALLABILITY_COMPLETE"
"""The variable by which a completion script asks what comes next (typer's name)."""
_LINES = ("COMP_WORDS", "_TYPER_COMPLETE_ARGS")
"""The variables that hold the line so far: bash's, and that of the other shells."""


def line_to_complete(environment: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return the words after `callability` in the line that a shell completes; None if none is being completed.

    The names of commands come first and are never quoted, so the rest may be split at any space.
    """
    if COMPLETING not in environment:
        return None
    line = next((environment[name] for name in _LINES if name in environment), "")
    return tuple(line.split()[1:])
