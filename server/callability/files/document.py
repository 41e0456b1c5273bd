"""A YAML 1.2 or JSON file as nodes that know their line and column; JSON may have comments and trailing commas.

Comments are blanked out, because no library that reads them reports the places that findings and edits need.
"""

from __future__ import annotations

import errno
import json
import re
from bisect import bisect_right
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from callability.contract.finding import Finding, Place, as_code
from callability.process.regular_file import read_regular

ENDINGS = (".json", ".jsonc")
SPACE = re.compile(r"(?:[ \t\r\n]|//[^\r\n]*|/\*.*?\*/)*", re.DOTALL)
"""What may stand between two values or signs: white space and comments."""
REST_OF_LINE = re.compile(r"(?:[ \t]|/\*[^\r\n]*?\*/)*(//[^\r\n]*)?")
"""The same up to the end of a line; the group is a comment that only the line's end ends."""

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
    return _blank(text, sorted(_superfluous(text)))


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


def _blank(text: str, spans: Iterable[tuple[int, int]]) -> str:
    parts, done = [], 0
    for start, end in spans:
        parts += [text[done:start], _VISIBLE.sub(" ", text[start:end])]
        done = end
    return "".join((*parts, text[done:]))


MAX_BYTES = 524_288
MAX_DEPTH = 48
MAX_VALUES = 50_000
"""Values of a file, keys and what holds others among them."""
MAX_DIGITS = 64
"""Digits of a number; what is longer is read as text."""
ScalarValue = str | bool | int | float | None


@dataclass(frozen=True, slots=True)
class Scalar:
    """A single value, and how the file writes it, without quotes."""

    value: ScalarValue
    place: Place
    written: str = ""

    @property
    def word(self) -> ScalarValue:
        """The value; of a whole number, its text: where texts are compared, `00` and `0x10` are not `0` and `16`."""
        return self.written if isinstance(self.value, int) and not isinstance(self.value, bool) else self.value


@dataclass(frozen=True, slots=True)
class DocumentSequence:
    """A list of nodes."""

    items: tuple[Node, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class DocumentMapping:
    """Keys and nodes, in the order of the file; no key is repeated."""

    entries: tuple[tuple[Scalar, Node], ...]
    place: Place

    def get(self, key: str) -> Node | None:
        """Return the node of a key, or None."""
        return next((node for name, node in self.entries if name.value == key), None)


Node = Scalar | DocumentSequence | DocumentMapping


class Refused(Exception):
    """A file that cannot be read as a document. It carries the findings."""

    def __init__(self, findings: tuple[Finding, ...]) -> None:
        super().__init__("\n".join(map(str, findings)))
        self.findings = findings


class OutOfDescriptors(Refused):
    """A file that cannot be opened now, because the process or the machine has no free descriptor."""


def read(path: Path, file: str | None = None) -> Node:
    """Read a file; `file` is its name in findings.

    Raises:
        Refused: the file cannot be read, is too large or is not one well-formed YAML or JSON document.
    """
    file = file or str(path)
    return parse(read_bytes(path, file), file)


def read_bytes(path: Path, file: str | None = None, most: int = MAX_BYTES) -> bytes:
    """Read the bytes of a file, no more than one too many; `file` is its name in findings.

    Raises:
        Refused: the file cannot be read; `OutOfDescriptors`, if it could be with a free descriptor.
    """
    try:
        return read_regular(path, most + 1)
    except OSError as error:
        sentence = f"cannot be read: {(error.strerror or 'error').lower()}"
        unreadable = refusal(Place(file or str(path)), "unreadable-file", sentence)
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise OutOfDescriptors(unreadable.findings) from error
        raise unreadable from error


def digest(data: bytes) -> str:
    """Return a digest that differs between two states of a file."""
    return sha256(data).hexdigest()


def parse(data: bytes, file: str) -> Node:
    """Parse the bytes of a file: JSON if its name ends in `.json` or `.jsonc`, YAML 1.2 otherwise.

    JSON may have comments and trailing commas.

    Raises:
        Refused: it is too large or is not one well-formed document.
    """
    if len(data) > MAX_BYTES:
        raise refusal(Place(file), "file-too-large", f"is larger than {MAX_BYTES:,} bytes")
    try:
        # The places of an error count from after the byte order mark.
        data = data.removeprefix(BOM_UTF8)
        text = data.decode()
    except UnicodeDecodeError as error:
        before = re.split("\r\n|[\r\n]", data[: error.start].decode())
        place = Place(file, len(before), len(before[-1]) + 1)
        raise refusal(place, "not-utf-8", f"byte {data[error.start]:#04x} is not UTF-8") from error
    if is_json(file):
        return _json_document(text, file)
    # The library takes longer to import than a program without files takes to start.
    from callability.files.yaml_document import document  # noqa: PLC0415

    return document(text, file)


def plain(node: Node) -> object:
    """Return a node as dictionaries, lists and values."""
    match node:
        case Scalar(value=value):
            return value
        case DocumentSequence(items=items):
            return [plain(item) for item in items]
        case DocumentMapping(entries=entries):
            return {key.value: plain(value) for key, value in entries}


def entries_of(node: Node | None) -> tuple[tuple[Scalar, Node], ...]:
    """Return the keys and nodes of a mapping, and nothing of any other node."""
    return node.entries if isinstance(node, DocumentMapping) else ()


def items_of(node: Node | None) -> tuple[Node, ...]:
    """Return the items of a list, and nothing of any other node."""
    return node.items if isinstance(node, DocumentSequence) else ()


def node_at(node: Node | None, key: str) -> Node | None:
    """Return the node of a key; None if there is no such key, or no mapping."""
    return node.get(key) if isinstance(node, DocumentMapping) else None


def texts(node: Node) -> Iterator[tuple[str, Place]]:
    """Yield each value that is text in a node, with its place; keys are left out."""
    match node:
        case Scalar(value=str() as text, place=place):
            yield text, place
        case DocumentSequence(items=items):
            for item in items:
                yield from texts(item)
        case DocumentMapping(entries=entries):
            for _, value in entries:
                yield from texts(value)


def refusal(place: Place, code: str, sentence: str, hint: str = "") -> Refused:
    """Return the error of a file with one finding."""
    return Refused((Finding(place, code, sentence, hint),))


def too_deep(place: Place) -> Refused:
    """Return the error of a file that is nested too deeply."""
    return refusal(place, "nested-too-deep", f"is nested more than {MAX_DEPTH} levels deep")


def too_many(place: Place) -> Refused:
    """Return the error of a file that has too many values, at the first of them that is one too many."""
    return refusal(place, "too-many-values", f"has more than {MAX_VALUES:,} values, keys among them")


# Of well-formed JSON: what stands between two tokens says nothing more.
_JSON_TOKEN = re.compile(r'[ \t\r\n,:]*("[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]|[^\s,:\[\]{}"]+)')
_LINE_END = re.compile("\r\n|[\r\n]")
_WORDS: dict[str, ScalarValue] = {"true": True, "false": False, "null": None}
_WHOLE = re.compile("-?[0-9]+")
_NUMBER = re.compile("-?[0-9][0-9.eE+-]*")


def _json_document(text: str, file: str) -> Node:
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
    return _JsonReader(text, file).document()


def _needless_comma(text: str, position: int) -> bool:
    """Say whether a reader stopped at a comma before a closing bracket, or just behind it."""
    comma = position if text[position : position + 1] == "," else len(text[:position].rstrip()) - 1
    return re.match(r",\s*[\]}]", text[max(comma, 0) :]) is not None


class _JsonReader:
    """Turns the tokens of well-formed JSON into nodes, and collects every finding on the way."""

    def __init__(self, text: str, file: str) -> None:
        self._file = file
        self._findings: list[Finding] = []
        self._lines = [0, *(end.end() for end in _LINE_END.finditer(text))]
        self._tokens = _JSON_TOKEN.finditer(text)
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
        lines: dict[str, int] = {}
        for token in self._until("}"):
            key, value = self._node(token, 0), self._node(next(self._tokens), levels)
            assert isinstance(key, Scalar)
            assert isinstance(key.value, str)
            if first := lines.get(key.value):
                self._find(
                    key.place, "duplicate-key", f"key {as_code(key.value)} is repeated", f"first in line {first}"
                )
            else:
                lines[key.value] = key.place.line
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

    def _find(self, place: Place, code: str, sentence: str, hint: str = "") -> None:
        self._findings.append(Finding(place, code, sentence, hint))
