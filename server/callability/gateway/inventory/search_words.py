"""Splitting a text into words for the search, in any script."""

from __future__ import annotations

import re
import unicodedata

from callability.adapter.name_words import MAX_WORD

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


def _composed(text: str) -> str:
    # In slices: the time for a run of combining marks grows with the square of its length.
    return _SLICE.sub(lambda piece: unicodedata.normalize("NFKC", piece[0]), text)
