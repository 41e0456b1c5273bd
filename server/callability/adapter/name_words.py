"""Splitting a query and a name into words of ASCII letters and digits, so that every language splits them alike."""

from __future__ import annotations

import re
import unicodedata

MAX_WORD = 64
"""A longer run of letters counts as several words, both in a name and in a query."""

_STOP_WORDS = (
    "a an and are as at be but by can do does for from has have how i if in into is it its me my no not of on or our"
    " please so some such that the their then there these they this to us was we what when where which who will with"
    " would you your"
)
STOP_WORDS = frozenset(_STOP_WORDS.split())
"""Words that say nothing about what a tool does."""

_HUMP = re.compile(r"[A-Z](?:(?<=[a-z0-9].)|(?<=[A-Z].)(?=[a-z]))")
_WORD = re.compile(rf"[A-Za-z0-9]{{1,{MAX_WORD}}}")


def name_words(text: str) -> tuple[str, ...]:
    """Split a text at every character that is no ASCII letter or digit and at camelCase humps, in small letters.

    Names that may be shown are ASCII (spec A.3), so that nothing else needs to match.
    """
    return tuple(word.lower() for word in _WORD.findall(_HUMP.sub(r" \g<0>", text)))


def without_stop_words(found: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words without stop words."""
    return tuple(word for word in found if word not in STOP_WORDS)


def has_a_word(text: str) -> bool:
    """Say whether a text has a letter or a number of any script: Unicode's general categories L and N."""
    return any(unicodedata.category(character)[0] in "LN" for character in text)
