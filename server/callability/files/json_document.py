"""JSON with the place of every node, within limits."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator

from callability.contract.finding import Finding, Place, as_code
from callability.files.document import (
    MAX_DEPTH,
    MAX_DIGITS,
    MAX_VALUES,
    DocumentMapping,
    DocumentSequence,
    Node,
    Refused,
    Scalar,
    ScalarValue,
    UnclosedComment,
    refusal,
    too_deep,
    too_many,
    without_comments,
)

# Of well-formed JSON: what stands between two tokens says nothing more.
_TOKEN = re.compile(r'[ \t\r\n,:]*("[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]|[^\s,:\[\]{}"]+)')
_LINE_END = re.compile("\r\n|[\r\n]")
_WORDS: dict[str, ScalarValue] = {"true": True, "false": False, "null": None}
_WHOLE = re.compile("-?[0-9]+")
_NUMBER = re.compile("-?[0-9][0-9.eE+-]*")


def document(text: str, file: str) -> Node:
    """Return the document in a text that may have comments and trailing commas; `file` is its name in findings.

    Raises:
        Refused: it is not one well-formed document.
    """
    try:
        text = without_comments(text)
        # As a text, a number may have any number of digits.
        json.loads(text, parse_int=str)
    except UnclosedComment as error:
        before = text[: error.position].split("\n")
        place = Place(file, len(before), len(before[-1]) + 1)
        raise refusal(place, "not-json", "a comment begins here and is not closed", "close it with `*/`") from error
    except json.JSONDecodeError as error:
        hint = "remove the comma before `]` or `}`" if _needless_comma(text, error.pos) else ""
        raise refusal(Place(file, error.lineno, error.colno), "not-json", "is not valid JSON here", hint) from error
    except RecursionError as error:
        raise too_deep(Place(file)) from error
    return _Reader(text, file).document()


def _needless_comma(text: str, position: int) -> bool:
    """Say whether a reader stopped at a comma before a closing bracket, or just behind it."""
    comma = position if text[position : position + 1] == "," else len(text[:position].rstrip()) - 1
    return re.match(r",\s*[\]}]", text[max(comma, 0) :]) is not None


class _Reader:
    """Turns the tokens of well-formed JSON into nodes, and collects every finding on the way."""

    def __init__(self, text: str, file: str) -> None:
        self._file = file
        self._findings: list[Finding] = []
        self._lines = [0, *(end.end() for end in _LINE_END.finditer(text))]
        self._tokens = _TOKEN.finditer(text)
        self._values = 0

    def document(self) -> Node:
        node = self._node(next(self._tokens), MAX_DEPTH)
        if self._findings:
            raise Refused(tuple(self._findings))
        return node

    def _node(self, token: re.Match[str], levels: int) -> Node:
        place, written = self._place(token), token[1]
        self._values += 1
        if self._values > MAX_VALUES:
            raise too_many(place)
        if written not in {"{", "["}:
            return self._scalar(written, place)
        if not levels:
            raise too_deep(place)
        if written == "{":
            return DocumentMapping(tuple(self._entries(levels - 1)), place)
        return DocumentSequence(tuple(self._node(item, levels - 1) for item in self._until("]")), place)

    def _until(self, closing: str) -> Iterator[re.Match[str]]:
        """Yield tokens until one closes a list or mapping; the consumer takes those within."""
        while (token := next(self._tokens))[1] != closing:
            yield token

    def _entries(self, levels: int) -> Iterator[tuple[Scalar, Node]]:
        keys: set[str] = set()
        for token in self._until("}"):
            key, value = self._node(token, 0), self._node(next(self._tokens), levels)
            assert isinstance(key, Scalar)
            assert isinstance(key.value, str)
            if key.value in keys:
                self._find(key.place, "duplicate-key", f"key {as_code(key.value)} is repeated")
            else:
                keys.add(key.value)
                yield key, value

    def _scalar(self, written: str, place: Place) -> Scalar:
        if written.startswith('"'):
            text: str = json.loads(written)
            if any("\ud800" <= character <= "\udfff" for character in text):
                self._find(place, "not-unicode", "an escape sequence encodes half a character")
                return Scalar("", place, text)
            return Scalar(text, place, text)
        value: ScalarValue = _WORDS.get(written, written)
        if _WHOLE.fullmatch(written):
            value = int(written) if len(written) <= MAX_DIGITS else written
        elif _NUMBER.fullmatch(written):
            value = float(written)
        return Scalar(value, place, written)

    def _place(self, token: re.Match[str]) -> Place:
        at = token.start(1)
        line = bisect_right(self._lines, at)
        return Place(self._file, line, at - self._lines[line - 1] + 1)

    def _find(self, place: Place, code: str, sentence: str) -> None:
        self._findings.append(Finding(place, code, sentence))
