"""A YAML 1.2 or JSON file as nodes that know their line and column."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from codecs import BOM_UTF8
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode
from ruamel.yaml.nodes import Node as YamlNode
from ruamel.yaml.reader import ReaderError

from callability.bounded_yaml import MAX_DEPTH, MAX_VALUES, TooDeep, TooMany, compose
from callability.finding import Finding, Place, shown
from callability.jsonc import UnclosedComment, is_json, with_colons_behind_keys, without_comments
from callability.yaml_fault import fault

MAX_BYTES = 524_288
MAX_DIGITS = 64
"""Digits of a number; what is longer is read as text."""

_TAG = "tag:yaml.org,2002:"
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
class Sequence:
    """A list of nodes."""

    items: tuple[Node, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class Mapping:
    """Keys and nodes, in the order of the file; no key is repeated."""

    entries: tuple[tuple[Scalar, Node], ...]
    place: Place

    def get(self, key: str) -> Node | None:
        """Return the node of a key, or None."""
        return next((node for name, node in self.entries if name.value == key), None)


Node = Scalar | Sequence | Mapping


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
        with open(path, "rb", opener=_opened) as stream:
            return stream.read(most + 1)
    except OSError as error:
        sentence = f"cannot be read: {(error.strerror or 'error').lower()}"
        refused = _refused(Place(file or str(path)), "unreadable-file", sentence)
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise OutOfDescriptors(refused.findings) from error
        raise refused from error


def _opened(name: str, flags: int) -> int:
    """Open a regular file and nothing else: a pipe would be waited for, and a device has no end."""
    opened = os.open(name, flags | os.O_NONBLOCK | os.O_NOCTTY)
    mode = os.fstat(opened).st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        os.close(opened)
        raise OSError(errno.EINVAL, "is not a regular file")
    return opened


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
        raise _refused(Place(file), "file-too-large", f"is larger than {MAX_BYTES:,} bytes")
    try:
        # The places of an error count from after the byte order mark.
        data = data.removeprefix(BOM_UTF8)
        text = data.decode()
    except UnicodeDecodeError as error:
        before = re.split("\r\n|[\r\n]", data[: error.start].decode())
        place = Place(file, len(before), len(before[-1]) + 1)
        raise _refused(place, "not-utf-8", f"byte {data[error.start]:#04x} is not UTF-8") from error
    return _Reader(file).document(_checked_json(text, file) if is_json(file) else text)


def plain(node: Node) -> object:
    """Return a node as dictionaries, lists and values."""
    match node:
        case Scalar(value=value):
            return value
        case Sequence(items=items):
            return [plain(item) for item in items]
        case Mapping(entries=entries):
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
        raise _refused(place, "not-json", "a comment begins here and is not closed", "close it with `*/`") from error
    except json.JSONDecodeError as error:
        hint = "remove the comma before `]` or `}`" if _needless_comma(text, error.pos) else ""
        raise _refused(Place(file, error.lineno, error.colno), "not-json", "is not valid JSON here", hint) from error
    except RecursionError as error:
        raise _too_deep(Place(file)) from error
    text = with_colons_behind_keys(text.replace("\t", " "))
    return _NOT_IN_YAML.sub(lambda character: f"\\u{ord(character[0]):04x}", text)


def _needless_comma(text: str, position: int) -> bool:
    """Say whether a reader stopped at a comma before a closing bracket, or just behind it."""
    comma = position if text[position : position + 1] == "," else len(text[:position].rstrip()) - 1
    return re.match(r",\s*[\]}]", text[max(comma, 0) :]) is not None


def _refused(place: Place, code: str, sentence: str, hint: str = "") -> Refused:
    return Refused((Finding(place, code, sentence, hint),))


def _too_deep(place: Place) -> Refused:
    return _refused(place, "nested-too-deep", f"is nested more than {MAX_DEPTH} levels deep")


_DIRECTIVE = re.compile(r"(?>[ \t]*(?:#[^\r\n]*)?(?:\r\n|[\r\n]))*+(?=%)")
"""What may stand above a directive."""


class _Reader:
    """Turns the nodes of the YAML library into ours, and collects every finding on the way."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.findings: list[Finding] = []
        self.seen: set[int] = set()

    def document(self, text: str) -> Node:
        if directive := _DIRECTIVE.match(text):
            raise self._directive(text, directive.end())
        root = self._composed(text)
        if root is None:
            raise _refused(Place(self.file), "empty-file", "is empty")
        node = self._node(root)
        if self.findings:
            raise Refused(tuple(self.findings))
        return node

    def _directive(self, text: str, position: int) -> Refused:
        place = Place(self.file, len(re.split("\r\n|[\n\r]", text[:position])), 1)
        return _refused(place, "directive", "a directive (`%...`) is not supported", "files are YAML 1.2")

    def _composed(self, text: str) -> YamlNode | None:
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
                raise _too_deep(place) from error
            if isinstance(error, TooMany):
                sentence = f"has more than {MAX_VALUES:,} values, keys among them"
                raise _refused(place, "too-many-values", sentence) from error
            line, column, problem, hint = fault(error, text)
            raise _refused(Place(self.file, line, column), "not-yaml", f"is not YAML: {problem}", hint) from error
        except ReaderError as error:
            before = re.split("\r\n|[\n\r]", text[: error.position])
            place = Place(self.file, len(before), len(before[-1]) + 1)
            sentence = f"is not YAML: the character U+{ord(text[error.position]):04X} is not allowed in a file"
            raise _refused(place, "not-yaml", sentence, "remove it") from error
        except (YAMLError, ValueError) as error:
            raise _refused(
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
                return Mapping(tuple(self._entries(node)), place)
            case SequenceNode():
                return Sequence(tuple(self._node(item) for item in node.value), place)
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
                self._find(key.place, "duplicate-key", f"key {shown(key.value)} is repeated")
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
