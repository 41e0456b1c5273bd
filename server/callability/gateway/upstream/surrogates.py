"""Replaces half a surrogate pair in JSON by U+FFFD: the SDK's parser refuses a whole message for one."""

from __future__ import annotations

import re

_REPLACEMENT = rb"\ufffd"
_PAIR = rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_HALF = rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
# Any other escape is read whole too, so that the backslash that ends one is not taken for the start of another.
_ESCAPE = re.compile(rb"(?:%b)|(?P<half>%b)|\\[\s\S]" % (_PAIR, _HALF))
_SIGN = re.compile(rb"\\u[dD][89a-fA-F]")
_WHOLE = re.compile(rb"(?:%b)|(?:%b)" % (_PAIR, _HALF))
_EXAMPLES = (rb"\ud800\udc00", rb"\udc00")


def without_halves(text: bytes) -> bytes:
    """Return JSON with U+FFFD for each half of a surrogate pair, and for what is not UTF-8."""
    return _without(text.decode("utf-8", "replace").encode())


class PiecesWithoutHalves:
    """The same for a text that arrives in pieces, except for what is not UTF-8."""

    def __init__(self) -> None:
        self._started = b""

    def certain(self, piece: bytes) -> bytes:
        """Take a piece, and return what is certain so far."""
        text = self._started + piece
        started = _started(text)
        self._started = text[len(text) - started :]
        return _without(text[: len(text) - started])

    def rest(self) -> bytes:
        """Return what was held back, once nothing more comes."""
        return _without(self._started)


def _without(text: bytes) -> bytes:
    return _ESCAPE.sub(lambda each: _REPLACEMENT if each["half"] else each[0], text) if _SIGN.search(text) else text


def _started(text: bytes) -> int:
    """Return how many bytes at the end begin a pair or a half of which more may come."""
    for length in range(min(len(text), len(_EXAMPLES[0]) - 1), 0, -1):
        end = text[-length:]
        if any(_begins(end, example) for example in _EXAMPLES) and not _is_escaped(text[:-length]):
            return length
    return 0


def _is_escaped(before: bytes) -> bool:
    """Say whether what follows a text is escaped by its last backslash."""
    return (len(before) - len(before.rstrip(b"\\"))) % 2 == 1


def _begins(end: bytes, example: bytes) -> bool:
    """Say whether a text becomes what an example is by the rest of the example."""
    return len(end) < len(example) and _WHOLE.fullmatch(end + example[len(end) :]) is not None
