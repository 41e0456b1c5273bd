"""Finds secrets among the arguments of a command, which every process list of the machine shows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from callability.gateway.config.variables import names_in

_SHORTEST = 6
"""A shorter value is a switch, not a secret."""
_WORDS = (
    "api-?key|access-?key|secret-?key|private-?key|token|secret|password|passwd|pwd|credentials?|authorization|bearer"
)
# The name must end so: `--token-file` and `--max-tokens` are none.
_NAME = re.compile(rf"(?:.*-)?(?:{_WORDS})")
_JOINED = re.compile(r"(-{0,2}[A-Za-z][\w.-]*)(?:=|:\s*)(\S.*)", re.DOTALL)
_PASSWORD_IN_URL = re.compile(r"://[^/?#\s:@]*:[^/?#\s@]+@")


def secret_arguments(arguments: Sequence[str]) -> Iterator[int]:
    """Yield the indexes of the arguments that hold a secret, judged by names; variables are not filled in."""
    for index, argument in enumerate(arguments):
        before = arguments[index - 1] if index else ""
        follows_flag = before.startswith("-") and _is_secretive(before) and not argument.startswith("-")
        joined = _JOINED.fullmatch(argument)
        is_value = (follows_flag and len(argument) >= _SHORTEST) or (
            joined is not None and _is_secretive(joined[1]) and len(joined[2]) >= _SHORTEST
        )
        if is_value or _PASSWORD_IN_URL.search(argument) or any(map(_is_secretive, names_in(argument))):
            yield index


def _is_secretive(name: str) -> bool:
    """Say whether a name of a flag or variable, in any spelling, ends as names of secrets do."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name.lstrip("-"))
    return _NAME.fullmatch(re.sub(r"[_.]", "-", words).lower()) is not None
