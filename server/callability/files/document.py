"""A YAML 1.2 or JSON file as nodes that know their line and column.

JSON with comments and trailing commas (JSONC), made plain JSON of the same length: every place stays where it is.

No library that reads JSONC reports the places of values, which findings and edits need.

YAML 1.2 parsed into the library's nodes within bounds: reading time is linear in the number of nodes.

What is wrong with a text that is not YAML: place, problem and hint, and none of the text, which may be secret.

YAML 1.2 as nodes that know their line and column; JSON in a form that is YAML too.
"""

from __future__ import annotations

import errno
import json
import re
import warnings
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer, MaxDepthExceededError
from ruamel.yaml.error import MarkedYAMLError, StringMark, YAMLError
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode
from ruamel.yaml.nodes import Node as YamlNode
from ruamel.yaml.reader import ReaderError

from callability.contract.finding import Finding, Place, as_code
from callability.process.regular_file import read_regular

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
    return _blank(text, sorted(_superfluous(text)))


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


def _blank(text: str, spans: Iterable[tuple[int, int]]) -> str:
    parts, done = [], 0
    for start, end in spans:
        parts += [text[done:start], _VISIBLE.sub(" ", text[start:end])]
        done = end
    return "".join((*parts, text[done:]))


MAX_BYTES = 524_288
MAX_DEPTH = 48
_NOT_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
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
    # The library takes longer to import than a program without files takes to start.
    pass  # MOVED

    return document(_checked_json(text, file) if is_json(file) else text, file)


def plain(node: Node) -> object:
    """Return a node as dictionaries, lists and values."""
    match node:
        case Scalar(value=value):
            return value
        case DocumentSequence(items=items):
            return [plain(item) for item in items]
        case DocumentMapping(entries=entries):
            return {key.value: plain(value) for key, value in entries}


def _checked_json(text: str, file: str) -> str:
    """Return JSON in a form that is YAML too, with every value at its line and column.

    In JSON a tab is only ever white space, and characters that YAML does not take stand only within texts, where they
    can be escaped. Comments and trailing commas become spaces.
    """
    try:
        text = without_comments(text)
        # As a text, a number may have any number of digits: it is read again, and checked, as YAML.
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
    text = with_colons_behind_keys(text.replace("\t", " "))
    return _NOT_IN_YAML.sub(lambda character: f"\\u{ord(character[0]):04x}", text)


def _needless_comma(text: str, position: int) -> bool:
    """Say whether a reader stopped at a comma before a closing bracket, or just behind it."""
    comma = position if text[position : position + 1] == "," else len(text[:position].rstrip()) - 1
    return re.match(r",\s*[\]}]", text[max(comma, 0) :]) is not None


def refusal(place: Place, code: str, sentence: str, hint: str = "") -> Refused:
    """Return the error of a file with one finding."""
    return Refused((Finding(place, code, sentence, hint),))


def too_deep(place: Place) -> Refused:
    """Return the error of a file that is nested too deeply."""
    return refusal(place, "nested-too-deep", f"is nested more than {MAX_DEPTH} levels deep")


MAX_VALUES = 50_000
"""Values of a file, keys and what holds others among them."""

TooDeep = MaxDepthExceededError
_ONE_AT_A_TIME = Lock()


class TooMany(MarkedYAMLError):
    """There are more than `MAX_VALUES`; it is marked where the first of them stands that is one too many."""


class _Composer(Composer):
    """The library's own, which counts."""

    values = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self.values += 1
        if self.values > MAX_VALUES:
            raise TooMany(problem_mark=self.parser.peek_event().start_mark)
        return super().compose_node(parent, index)


def compose(text: str) -> YamlNode | None:
    """Return the root of a text that is one document; None where it is empty.

    Raises:
        TooDeep: it is nested more than `MAX_DEPTH` levels deep.
        TooMany: it has more than `MAX_VALUES` values.
        YAMLError: it is not YAML.
        ValueError: it has an escape that is no character.
    """
    yaml = YAML(typ="safe", pure=True)
    yaml.version = (1, 2)
    yaml.Composer = _Composer
    # The root counts as one level here.
    yaml.max_depth = MAX_DEPTH + 1
    # The library's warnings hold lines of the file, which may be secrets; what they warn of is refused anyhow.
    # They are caught for all threads at once, so that one file is read after the other.
    with _ONE_AT_A_TIME, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        node: YamlNode | None = yaml.compose(text)
    return node


_QUOTE = "quote a sentence that begins with `{` or contains `: `"
_STRAY = re.compile(r"(?:found|got) '([\]},])'")
_PAIRS = {"[": "]", "{": "}"}
_INDENT = "indent each entry of a list or mapping like the entries above it"


class Fault(NamedTuple):
    """Line and column count from 1, and are 0 if the library gives no place."""

    line: int
    column: int
    problem: str
    hint: str


def fault(error: MarkedYAMLError, text: str) -> Fault:
    """Return what the YAML library found in a text."""
    found = f"{error.context} {error.problem}"
    mark, opening = error.problem_mark or error.context_mark, error.context_mark
    if "undefined alias" in found:
        return _at(mark, "an alias (`*name`) refers to nothing", "quote a text that begins with `*`")
    if "while scanning an alias" in found:
        return _at(mark, "a `*` begins an alias, and no name follows", "quote a text that begins with `*`")
    if "character '\\t'" in found:
        return _at(mark, "a tab is used where only spaces are allowed", "indent with spaces")
    if "cannot start any token" in found:
        return _at(mark, "an unquoted text cannot begin with this character", "quote the text")
    if "another document" in found:
        return _at(mark, "a second document begins here", "write one document in a file")
    if "mapping values are not allowed" in found:
        return _colon(mark, text)
    if "quoted scalar" in found:
        return _at(opening or mark, "a quoted text is not closed", "")
    stray = _STRAY.search(found)
    # The library may take a wrong closing bracket for an entry, and give its place as that of the opening one.
    if "flow" in found and opening is not None and _bracket(opening, text) in _PAIRS:
        return _bracket_fault(mark, opening, text, closing=stray[1] if stray else "")
    if stray:
        problem = "this `,` separates nothing" if stray[1] == "," else f"this `{stray[1]}` closes nothing"
        return _at(mark, problem, "remove it")
    if "but found '<scalar>'" in found:
        return _at(mark, "text follows a value that has ended", _QUOTE)
    if "block" in found:
        return _at(mark, "the indentation of this line matches no line above", _INDENT)
    return _at(mark, "this cannot be parsed", "")


def _at(mark: StringMark | None, problem: str, hint: str) -> Fault:
    return Fault(mark.line + 1, mark.column + 1, problem, hint) if mark else Fault(0, 0, problem, hint)


def _bracket_fault(mark: StringMark | None, opening: StringMark, text: str, *, closing: str) -> Fault:
    """Distinguish a wrong closing bracket from one that is missing."""
    bracket = _bracket(opening, text)
    if closing in _PAIRS.values():
        problem = f"this `{closing}` does not close the `{bracket}` in line {opening.line + 1}"
        return _at(mark, problem, f"write `{_PAIRS[bracket]}` before it, or remove it")
    problem = f"the `{bracket}` in line {opening.line + 1} is not closed, or a comma is missing"
    return _at(mark, problem, "quote a sentence that begins with `{`" if bracket == "{" else "")


def _bracket(opening: StringMark, text: str) -> str:
    return _line(text, opening.line)[opening.column : opening.column + 1]


def _colon(mark: StringMark | None, text: str) -> Fault:
    """Distinguish a second colon in a line from a key that stands too deep."""
    if mark is not None and ": " not in _line(text, mark.line)[: mark.column]:
        hint = "indent the key like the keys around it, and end the key of the line above with `: `"
        return _at(mark, "a key is not allowed here", hint)
    return _at(mark, "this line has a second `: `", _QUOTE)


def _line(text: str, number: int) -> str:
    return (re.split(r"\r\n|\r|\n", text)[number : number + 1] or [""])[0]


MAX_DIGITS = 64
"""Digits of a number; what is longer is read as text."""
_TAG = "tag:yaml.org,2002:"
_DIRECTIVE = re.compile(r"(?>[ \t]*(?:#[^\r\n]*)?(?:\r\n|[\r\n]))*+(?=%)")
"""What may stand above a directive."""


def document(text: str, file: str) -> Node:
    """Return the document in a text; `file` is its name in findings.

    Raises:
        Refused: it is not one well-formed document.
    """
    return _Reader(file).document(text)


class _Reader:
    """Turns the nodes of the YAML library into ours, and collects every finding on the way."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.findings: list[Finding] = []
        self.seen: set[int] = set()

    def document(self, text: str) -> Node:
        if directive := _DIRECTIVE.match(text):
            raise self._directive(text, directive.end())
        root = self._compose(text)
        if root is None:
            raise refusal(Place(self.file), "empty-file", "is empty")
        node = self._node(root)
        if self.findings:
            raise Refused(tuple(self.findings))
        return node

    def _directive(self, text: str, position: int) -> Refused:
        place = Place(self.file, len(re.split("\r\n|[\n\r]", text[:position])), 1)
        return refusal(place, "directive", "a directive (`%...`) is not supported", "files are YAML 1.2")

    def _compose(self, text: str) -> YamlNode | None:
        try:
            return compose(text)
        except KeyError as error:
            # The library looks up the version that a directive names, wherever it stands, and knows only some.
            found = re.search(r"(?<![^\r\n])%", text)
            raise self._directive(text, found.start() if found else 0) from error
        except MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            place = Place(self.file, mark.line + 1, mark.column + 1) if mark else Place(self.file)
            if isinstance(error, TooDeep):
                raise too_deep(place) from error
            if isinstance(error, TooMany):
                sentence = f"has more than {MAX_VALUES:,} values, keys among them"
                raise refusal(place, "too-many-values", sentence) from error
            line, column, problem, hint = fault(error, text)
            raise refusal(Place(self.file, line, column), "not-yaml", f"is not YAML: {problem}", hint) from error
        except ReaderError as error:
            before = re.split("\r\n|[\n\r]", text[: error.position])
            place = Place(self.file, len(before), len(before[-1]) + 1)
            sentence = f"is not YAML: the character U+{ord(text[error.position]):04X} is not allowed in a file"
            raise refusal(place, "not-yaml", sentence, "remove it") from error
        except (YAMLError, ValueError) as error:
            raise refusal(
                Place(self.file), "not-yaml", "is not YAML: it contains a character that is not allowed in a file"
            ) from error

    def _node(self, node: YamlNode) -> Node:
        place = Place(self.file, node.start_mark.line + 1, node.start_mark.column + 1)
        if id(node) in self.seen:
            sentence = "this value is repeated by an alias (`*name`), which is not supported"
            self._find(place, "alias", sentence, "write the value out")
            return Scalar(None, place)
        self.seen.add(id(node))
        if not isinstance(node, ScalarNode) and str(node.tag) not in {f"{_TAG}map", f"{_TAG}seq"}:
            self._find(place, "unknown-tag", "a tag (`!name`) is not supported")
        match node:
            case MappingNode():
                return DocumentMapping(tuple(self._entries(node)), place)
            case SequenceNode():
                return DocumentSequence(tuple(self._node(item) for item in node.value), place)
            case ScalarNode():
                return Scalar(self._value(node, place), place, str(node.value))
        raise TypeError(f"the YAML library made a {type(node).__name__}")

    def _entries(self, node: MappingNode) -> Iterator[tuple[Scalar, Node]]:
        keys: set[ScalarValue] = set()
        for key_node, value_node in node.value:
            key = self._node(key_node)
            value = self._node(value_node)
            if not isinstance(key, Scalar) or not isinstance(key.value, str):
                self._find(key.place, "key-not-text", "a key is not text", "quote it, or write `placeholder` in quotes")
            elif key.value in keys:
                self._find(key.place, "duplicate-key", f"key {as_code(key.value)} is repeated")
            else:
                keys.add(key.value)
                yield key, value

    def _value(self, node: ScalarNode, place: Place) -> ScalarValue:
        text = str(node.value)
        try:
            match str(node.tag).removeprefix(_TAG):
                case "str":
                    return self._text(text, place)
                case "bool" if text.lower() in {"true", "false"}:
                    return text.lower() == "true"
                case "null":
                    return None
                case "int":
                    return int(text.replace("_", ""), 0) if len(text) <= MAX_DIGITS else text
                case "float":
                    return float(text.replace("_", ""))
                case "merge" | "timestamp":
                    return text
        except ValueError:
            return text
        self._find(place, "unknown-tag", "a tag (`!name`) is not supported")
        return None

    def _text(self, text: str, place: Place) -> str:
        """Join the halves of characters that JSON escapes as two."""
        try:
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            self._find(place, "not-unicode", "an escape sequence encodes half a character")
            return ""

    def _find(self, place: Place, code: str, sentence: str, hint: str = "") -> None:
        self.findings.append(Finding(place, code, sentence, hint))
