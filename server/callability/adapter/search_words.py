"""Splitting a text into words, for the search and for matching names."""

from __future__ import annotations

import re
import unicodedata

MAX_WORD = 64
"""A longer run of letters counts as several words, both in a text and in a query."""

_STOP_WORDS = (
    "a an and are as at be but by can do does for from has have how i if in into is it its me my no not of on or our"
    " please so some such that the their then there these they this to us was we what when where which who will with"
    " would you your"
)
STOP_WORDS = frozenset(_STOP_WORDS.split())
"""Words that say nothing about what a tool does."""

_HUMP = re.compile(r"[A-Z](?:(?<=[a-z0-9].)|(?<=[A-Z].)(?=[a-z]))")
_IDEOGRAPH = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
_WORD = re.compile(rf"[{_IDEOGRAPH}]|[^\W_{_IDEOGRAPH}]{{1,{MAX_WORD}}}")
_SLICE = re.compile(r"\S{1,64}")


def words(text: str) -> tuple[str, ...]:
    """Split a text at every character that is no letter or digit and at camelCase humps, and fold case and width.

    In scripts without spaces (Chinese, Japanese) every character is a word.
    """
    parted = _HUMP.sub(r" \g<0>", text if text.isascii() else _composed(text))
    return tuple(_WORD.findall(parted.casefold()))


def without_stop_words(found: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words without stop words."""
    return tuple(word for word in found if word not in STOP_WORDS)


def _composed(text: str) -> str:
    # In slices: the time for a run of combining marks grows with the square of its length.
    return _SLICE.sub(lambda piece: unicodedata.normalize("NFKC", piece[0]), text)
