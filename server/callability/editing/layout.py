"""The positions of mappings in a YAML or JSON text, and where a value or key can be inserted."""

from __future__ import annotations

import re

from ruamel.yaml import YAML
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from callability import jsonc
from callability.editing.spelling import Spelling, Tree, Value

Splice = tuple[int, int, str]
"""What stands from an index of the text to another is replaced by a text."""

# If JSON is read as YAML, only the places count: what YAML does not accept is replaced by text of the same length.
_NOT_IN_YAML = re.compile("[\t\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_SPACE = re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*")
_REST_OF_LINE = re.compile(r"[ \t]*(#[^\r\n]*)?")
_LINE_END = re.compile(r"\r\n|\n|\r")


class Unclear(Exception):
    """A value is written in a way that is not edited: a list, a text over several lines."""


def _as_yaml(text: str) -> str:
    """Return JSON as YAML of the same length: every node keeps its index, but not always its line."""
    text = _NOT_IN_YAML.sub(" ", jsonc.without_comments(text))
    return jsonc.KEY_AND_COLON.sub(lambda found: f"{found[1]}:{' ' * len(found[2])}" if found[2] else found[0], text)


class Layout:
    """A well-formed text and the positions of its nodes."""

    def __init__(self, text: str, *, is_json: bool) -> None:
        self.text = text
        line_end = _LINE_END.search(text)
        self._spelling = Spelling(is_json, line_end[0] if line_end else "\n")
        yaml = YAML(typ="safe", pure=True)
        yaml.version = (1, 2)
        self._space = jsonc.SPACE if is_json else _SPACE
        self._rest_of_line = jsonc.REST_OF_LINE if is_json else _REST_OF_LINE
        self.root: Node = yaml.compose(_as_yaml(text) if is_json else text)

    def value(self, mapping: Node, index: int) -> Node:
        """Return the value of an entry of a mapping."""
        node: Node = mapping.value[index][1]
        return node

    def replaced(self, mapping: Node, index: int, tree: Value | Tree) -> tuple[Splice, ...]:
        """Write a value in place of that of an entry.

        Raises:
            Unclear: what stands there is not a single value in a single line's style.
        """
        key, old = mapping.value[index]
        new = self._spelling.flow(tree)
        if _is_blank(old):
            colon = self._colon(key)
            at = key.end_mark.index if colon is None else colon
            return ((at, at, f": {new}" if colon is None else f" {new}"),)
        if not isinstance(old, ScalarNode) or old.style in ("|", ">"):
            raise Unclear
        return ((old.start_mark.index, old.end_mark.index, new),)

    def inserted(self, mapping: Node, tree: Tree) -> tuple[Splice, ...]:
        """Write further entries behind the last one of a mapping.

        Raises:
            Unclear: it is no mapping.
        """
        if not isinstance(mapping, MappingNode):
            raise Unclear
        if not mapping.flow_style:
            return self._inserted_in_block(mapping, tree)
        if not mapping.value:
            return self._inserted_in_braces(mapping, tree)
        return self._inserted_in_flow(mapping, tree)

    def _inserted_in_block(self, mapping: MappingNode, tree: Tree) -> tuple[Splice, ...]:
        column = self._column(mapping)
        unit = " " * self._unit(mapping, column)
        written = self._spelling.lines(tree, " " * column, unit, braces=False)
        at = self._end_of_entry(mapping)
        if at and self.text[at - 1] in "\r\n":
            return ((at, at, written + self._spelling.line_end),)
        at = self._end_of_line(at)
        return ((at, at, self._spelling.line_end + written),)

    def _inserted_in_braces(self, mapping: MappingNode, tree: Tree) -> tuple[Splice, ...]:
        start = self.text.index("{", mapping.start_mark.index) + 1
        inner = self.text[start : mapping.end_mark.index - 1]
        if not _LINE_END.search(inner):
            return ((start, start, self._spelling.entries(tree)),)
        at = start + len(inner.rstrip())
        indent = self._indent(mapping.end_mark.index - 1)
        written = self._spelling.lines(tree, f"{indent}  ", "  ", braces=True)
        return ((at, at, self._spelling.line_end + written),)

    def _inserted_in_flow(self, mapping: MappingNode, tree: Tree) -> tuple[Splice, ...]:
        """Keep to the line breaks: a last entry with a line of its own is followed by another such."""
        last, end = mapping.value[-1][0].start_mark, self._end_of_entry(mapping)
        space = self._space.match(self.text, end)
        assert space is not None
        has_comma = self.text[space.end()] == ","
        at = space.end() + 1 if has_comma else end
        comma = "" if has_comma else " ," if _is_blank(mapping.value[-1][1]) else ","
        rest = self._rest_of_line.match(self.text, at)
        assert rest is not None
        indent = self._indent(last.index)
        own_line = len(indent) == self._column_of(last.index) and last.line > mapping.start_mark.line
        if not own_line and not rest[1]:
            return ((end, end, comma), (at, at, f" {self._spelling.entries(tree)}"))
        if self.text[rest.end()] in "\r\n":
            at = rest.end()
        indent = indent if own_line else " " * self._column_of(last.index)
        unit = indent.removeprefix(self._indent(mapping.end_mark.index - 1)) or "  "
        written = self._spelling.line_end + self._spelling.lines(tree, indent, unit, braces=True)
        return ((end, end, comma), (at, at, written))

    def _column(self, mapping: MappingNode) -> int:
        """Return the column of a block mapping's keys; one that is written with a `?` begins there."""
        key: int = mapping.value[0][0].start_mark.column
        start: int = mapping.start_mark.column
        return start if self.text[mapping.start_mark.index] == "?" else key

    def _unit(self, mapping: MappingNode, column: int) -> int:
        """Return how far a mapping's neighbours are indented below it."""
        below = (value for _, value in mapping.value if isinstance(value, MappingNode) and not value.flow_style)
        return next((self._column(value) - column for value in below), 2)

    def _end_of_entry(self, mapping: MappingNode) -> int:
        key, value = mapping.value[-1]
        if not _is_blank(value):
            return self._end(value)
        colon = self._colon(key)
        end: int = key.end_mark.index
        return end if colon is None else colon

    def _end(self, node: Node) -> int:
        """Return where the content of a node ends: a mark of the library may stand behind comments."""
        end: int = node.end_mark.index
        if isinstance(node, ScalarNode) and node.style in ("|", ">"):
            written = self.text[node.start_mark.index : end]
            return end if "+" in written.splitlines()[0] else node.start_mark.index + len(written.rstrip())
        if isinstance(node, MappingNode) and not node.flow_style:
            return self._end_of_entry(node)
        if isinstance(node, SequenceNode) and not node.flow_style:
            return self._end_of_items(node)
        return end

    def _end_of_items(self, node: SequenceNode) -> int:
        end: int = node.start_mark.index
        for item in node.value:
            if _is_blank(item):
                space = self._space.match(self.text, end)
                assert space is not None
                end = space.end() + 1
            else:
                end = self._end(item)
        return end

    def _colon(self, key: Node) -> int | None:
        """Return where the colon of a key ends, or None where it has none."""
        space = self._space.match(self.text, key.end_mark.index)
        assert space is not None
        return space.end() + 1 if self.text[space.end() : space.end() + 1] == ":" else None

    def _end_of_line(self, at: int) -> int:
        rest = self._rest_of_line.match(self.text, at)
        assert rest is not None
        return rest.end()

    def _column_of(self, at: int) -> int:
        return at - max(self.text.rfind("\n", 0, at), self.text.rfind("\r", 0, at)) - 1

    def _indent(self, at: int) -> str:
        """Return the white space at the beginning of the line of an index."""
        line = self.text[at - self._column_of(at) : at]
        return line[: len(line) - len(line.lstrip())]


def _is_blank(node: Node) -> bool:
    return isinstance(node, ScalarNode) and node.start_mark.index == node.end_mark.index
