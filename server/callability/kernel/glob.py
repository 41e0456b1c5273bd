"""Glob patterns over names: `*` matches any characters, and `?` any one character."""

from __future__ import annotations

import fnmatch
import re
from functools import lru_cache

_WILDCARDS = frozenset("*?")
KEPT = 4_096
"""Patterns, and sets of them, that are kept as they are looked at."""


def is_glob(text: str) -> bool:
    """Say whether a string is a pattern, and not one exact name."""
    return not _WILDCARDS.isdisjoint(text)


def matches(glob: str, name: str) -> bool:
    """Say whether a pattern matches the whole of a name, case-sensitively.

    The time that it takes grows with the lengths of both, and no faster, whatever the pattern.
    """
    return _compiled(glob).match(name) is not None


def holds(patterns: frozenset[str], name: str) -> bool:
    """Say whether a name is one of some names, or is matched by one of the patterns among them."""
    return name in patterns or any(matches(glob, name) for glob in _globs(patterns))


@lru_cache(maxsize=KEPT)
def held(patterns: frozenset[str], names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names that are among some names, or are matched by one of the patterns among them."""
    compiled = [_compiled(glob) for glob in _globs(patterns)]
    return tuple([name for name in names if name in patterns or any(each.match(name) for each in compiled)])


@lru_cache(maxsize=KEPT)
def _globs(patterns: frozenset[str]) -> tuple[str, ...]:
    return tuple(filter(is_glob, patterns))


@lru_cache(maxsize=KEPT)
def _compiled(glob: str) -> re.Pattern[str]:
    # A bracket is a character like any other in a pattern, which `fnmatch` sees otherwise.
    return re.compile(fnmatch.translate(glob.replace("[", "[[]")))
