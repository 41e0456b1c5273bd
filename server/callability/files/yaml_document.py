"""YAML with the place of every node, within limits, and the fault where it is not YAML."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from threading import Lock
from typing import Any, NamedTuple

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer, MaxDepthExceededError
from ruamel.yaml.error import MarkedYAMLError, StringMark, YAMLError
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode
from ruamel.yaml.nodes import Node as YamlNode
from ruamel.yaml.reader import ReaderError

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
    refusal,
    too_deep,
    too_many,
)

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
                raise too_many(place) from error
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

    def _node(self, node: YamlNode, key: YamlNode | None = None) -> Node:
        place = Place(self.file, node.start_mark.line + 1, node.start_mark.column + 1)
        if key is not None and node.start_mark.index == node.end_mark.index > key.end_mark.index:
            # An empty value is marked where the next one is, which may be lines below.
            place = Place(self.file, key.end_mark.line + 1, key.end_mark.column + 2)
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
        lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            key = self._node(key_node)
            value = self._node(value_node, key_node)
            if not isinstance(key, Scalar) or not isinstance(key.value, str):
                self._find(key.place, "key-not-text", "a key is not text", "quote it, or write `placeholder` in quotes")
            elif first := lines.get(key.value):
                self._find(
                    key.place, "duplicate-key", f"key {as_code(key.value)} is repeated", f"first in line {first}"
                )
            else:
                lines[key.value] = key.place.line
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
