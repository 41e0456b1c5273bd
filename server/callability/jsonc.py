"""JSON with comments and trailing commas (JSONC), made plain JSON of the same length: every place stays where it is.

No library that reads JSONC reports the places of values, which findings and edits need.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

ENDINGS = (".json", ".jsonc")
SPACE = re.compile(r"(?:[ \t\r\n]|//[^\r\n]*|/\*.*?\*/)*", re.DOTALL)
"""What may stand between two values or signs: white space and comments."""
REST_OF_LINE = re.compile(r"(?:[ \t]|/\*[^\r\n]*?\*/)*(//[^\r\n]*)?")
"""The same up to the end of a line; the group is a comment that only the line's end ends."""
KEY_AND_COLON = re.compile(r'("(?:[^"\\]|\\.)*")(?:( *[\r\n][ \r\n]*):)?')
"""A text; the second group is the white space, with a line break, between it and a colon."""

# A text or a comment that is never closed goes on to the end, so that each character is looked at once.
_TOKEN = re.compile(r'"[^"\\\r\n]*(?:\\.[^"\\\r\n]*)*"?|//[^\r\n]*|/\*.*?(?:\*/|\Z)|[^\s"/,]+|[,/]', re.DOTALL)
_VISIBLE = re.compile(r"[^\r\n]")
_NO_VALUE = "[{,:"
"""Signs behind which a comma is no trailing one."""


class UnclosedComment(Exception):
    """A `/*` without its `*/`."""

    def __init__(self, position: int) -> None:
        super().__init__(position)
        self.position = position


def is_json(file: str) -> bool:
    """Say whether a file of a name is JSON."""
    return file.endswith(ENDINGS)


def without_comments(text: str) -> str:
    """Return a text with spaces in place of its comments and of commas behind the last value of a list or mapping.

    What is not JSON for another reason is left for its reader to find.

    Raises:
        UnclosedComment: a comment does not end.
    """
    return _blanked(text, sorted(_superfluous(text)))


def with_colons_behind_keys(text: str) -> str:
    """Return JSON with each colon in the line of its key, as YAML wants it; every value keeps its line and column."""
    return KEY_AND_COLON.sub(lambda found: f"{found[1]}:{found[2]} " if found[2] else found[0], text)


def _superfluous(text: str) -> Iterator[tuple[int, int]]:
    """Yield where each comment and each trailing comma begins and ends."""
    before, comma = "", -1
    for token in _TOKEN.finditer(text):
        written = token[0]
        if written.startswith(("//", "/*")):
            if written.startswith("/*") and (len(written) < 4 or not written.endswith("*/")):
                raise UnclosedComment(token.start())
            yield token.span()
            continue
        if comma >= 0 and written[0] in "]}":
            yield comma, comma + 1
        follows_value = before != "" and before[-1] not in _NO_VALUE
        comma = token.start() if written == "," and follows_value else -1
        before = written


def _blanked(text: str, spans: Iterable[tuple[int, int]]) -> str:
    parts, done = [], 0
    for start, end in spans:
        parts += [text[done:start], _VISIBLE.sub(" ", text[start:end])]
        done = end
    return "".join((*parts, text[done:]))
