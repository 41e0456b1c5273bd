r"""Quoting tool names in commands: a plain name unchanged, any other escaped and in single quotes.

Every name has one written form, and every written form stands for one name: a backslash is written `\\`, and a
character that cannot be seen, or a single quote, is written as `\u202e` or `\U000e0041`.
"""

from __future__ import annotations

import re

from callability.command_line.options import leave
from callability.command_line.terminal import escaped
from callability.finding import MAX_SHOWN
from callability.tool_name import is_plain

_ESCAPE = re.compile(r"\\(?:(\\)|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|)")
_LAST_CHARACTER = 0x10FFFF


def argument_of(name: str) -> str:
    """Return the TOOL argument that stands for a name, without quotes for a shell."""
    return escaped(name.replace("\\", "\\\\")).replace("'", "\\u0027")


def word_of(name: str) -> str:
    """Return the same as a shell reads it."""
    return name if is_plain(name) else f"'{argument_of(name)}'"


def cell_of(name: str) -> str:
    """Return the same for a table, cut at 128 characters: a word that ends with `…` is not the whole name."""
    argument = argument_of(name)
    return word_of(name) if len(argument) <= MAX_SHOWN else f"'{argument[: MAX_SHOWN - 1]}…"


def is_cut(name: str) -> bool:
    """Say whether a table has only the beginning of a name."""
    return len(argument_of(name)) > MAX_SHOWN


def name_of(argument: str) -> str:
    """Return the name that a TOOL argument stands for, or exit with code 2."""
    return _ESCAPE.sub(_character, argument)


def _character(match: re.Match[str]) -> str:
    backslash, *digits = match.groups()
    code = int(next(filter(None, digits), "110000"), 16)
    if not backslash and code > _LAST_CHARACTER:
        leave(
            "a backslash in TOOL begins an escape, as in `\\\\`, `\\u202e` or `\\U000e0041`; `callability approvals"
            " list` writes each name as TOOL takes it",
            2,
        )
    return backslash or chr(code)
