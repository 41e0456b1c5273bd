"""YAML 1.2 as nodes that know their line and column; JSON in a form that is YAML too."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode
from ruamel.yaml.nodes import Node as YamlNode
from ruamel.yaml.reader import ReaderError

from callability.bounded_yaml import MAX_VALUES, TooDeep, TooMany, compose
from callability.document import Mapping, Node, Refused, Scalar, ScalarValue, Sequence, refused, too_deep
from callability.finding import Finding, Place, shown
from callability.yaml_fault import fault

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
        root = self._composed(text)
        if root is None:
            raise refused(Place(self.file), "empty-file", "is empty")
        node = self._node(root)
        if self.findings:
            raise Refused(tuple(self.findings))
        return node

    def _directive(self, text: str, position: int) -> Refused:
        place = Place(self.file, len(re.split("\r\n|[\n\r]", text[:position])), 1)
        return refused(place, "directive", "a directive (`%...`) is not supported", "files are YAML 1.2")

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
                raise too_deep(place) from error
            if isinstance(error, TooMany):
                sentence = f"has more than {MAX_VALUES:,} values, keys among them"
                raise refused(place, "too-many-values", sentence) from error
            line, column, problem, hint = fault(error, text)
            raise refused(Place(self.file, line, column), "not-yaml", f"is not YAML: {problem}", hint) from error
        except ReaderError as error:
            before = re.split("\r\n|[\n\r]", text[: error.position])
            place = Place(self.file, len(before), len(before[-1]) + 1)
            sentence = f"is not YAML: the character U+{ord(text[error.position]):04X} is not allowed in a file"
            raise refused(place, "not-yaml", sentence, "remove it") from error
        except (YAMLError, ValueError) as error:
            raise refused(
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
