"""Where the nodes of a YAML or JSON text are, and which parts of the text a new value replaces.

The only module besides `yaml_document` that imports ruamel, which takes a while.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ruamel.yaml import YAML
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode
from ruamel.yaml.nodes import Node as LaidNode

from callability.files import document
from callability.files.spelling import Spelling, Splice, Tree, Unclear, Value

# If JSON is read as YAML, only the places count: what YAML does not accept is replaced by text of the same length.
_NOT_IN_YAML = re.compile("[\t\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_KEY_AND_COLON = re.compile(r'("(?:[^"\\]|\\.)*")(?:( *[\r\n][ \r\n]*):)?')
"""A text; the second group is the white space, with a line break, between it and a colon."""
_SPACE = re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*")
_REST_OF_LINE = re.compile(r"[ \t]*(#[^\r\n]*)?")
_LINE_END = re.compile(r"\r\n|\n|\r")


def _as_yaml(text: str) -> str:
    """Return JSON as YAML of the same length: every node keeps its index, but not always its line."""
    text = _NOT_IN_YAML.sub(" ", document.without_comments(text))
    return _KEY_AND_COLON.sub(lambda found: f"{found[1]}:{' ' * len(found[2])}" if found[2] else found[0], text)


class Layout:
    """A well-formed text and the positions of its nodes."""

    def __init__(self, text: str, *, is_json: bool) -> None:
        self.text = text
        line_end = _LINE_END.search(text)
        self._spelling = Spelling(is_json, line_end[0] if line_end else "\n")
        yaml = YAML(typ="safe", pure=True)
        yaml.version = (1, 2)
        self._space = document.SPACE if is_json else _SPACE
        self._rest_of_line = document.REST_OF_LINE if is_json else _REST_OF_LINE
        self.root: LaidNode = yaml.compose(_as_yaml(text) if is_json else text)

    def value(self, mapping: LaidNode, index: int) -> LaidNode:
        """Return the value of an entry of a mapping."""
        node: LaidNode = mapping.value[index][1]
        return node

    def replacement(self, mapping: LaidNode, index: int, tree: Value | Tree) -> tuple[Splice, ...]:
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

    def insert_entries(self, mapping: LaidNode, tree: Tree) -> tuple[Splice, ...]:
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

    def without_entry(self, mapping: LaidNode, index: int) -> tuple[Splice, ...]:
        """Remove an entry of a mapping, with its lines if they hold nothing else.

        Raises:
            Unclear: it is no mapping.
        """
        if not isinstance(mapping, MappingNode):
            raise Unclear
        start, end = mapping.value[index][0].start_mark.index, self._end_of_entry(mapping, index)
        if mapping.flow_style:
            spans = [
                (key.start_mark.index, self._end_of_entry(mapping, at)) for at, (key, _) in enumerate(mapping.value)
            ]
            return self._without_item(spans, index)
        if self.text[start - 2 : start] == "? ":
            start -= 2
        if len(mapping.value) == 1:
            return ((start, end, "{}"),)
        return (self._lines_of(start, end),)

    def with_items(self, mapping: LaidNode, index: int, old: object, new: Sequence[str]) -> tuple[Splice, ...]:
        """Write a list of texts in place of that of an entry: items are added at the end, or removed, or neither.

        Raises:
            Unclear: the new list is another one altogether.
        """
        key, node = mapping.value[index]
        items, wanted = [*old] if isinstance(old, list) else [], [*new]
        if wanted == items:
            return ()
        if not isinstance(node, SequenceNode):
            raise Unclear
        if not items or (not wanted and not node.flow_style):
            at = self._colon(key)
            assert at is not None
            end = node.end_mark.index if node.flow_style else self._end_of_items(node)
            return ((at, end, f" {self._spelling.flow(wanted)}"),)
        if wanted[: len(items)] == items:
            return self._with_more_items(node, wanted[len(items) :])
        gone = [at for at, item in enumerate(items) if item not in wanted]
        if [item for item in items if item in wanted] != wanted:
            raise Unclear
        return tuple(splice for at in gone for splice in self._without(node, at, gone))

    def _with_more_items(self, node: SequenceNode, more: list[str]) -> tuple[Splice, ...]:
        last = node.value[-1]
        end = self._end(last)
        if node.flow_style:
            begin = last.start_mark.index
            indent = self._indent(begin)
            own_line = len(indent) == self._column_of(begin) and last.start_mark.line > node.start_mark.line
            between = f",{self._spelling.line_end}{indent}" if own_line else ", "
            return ((end, end, "".join(f"{between}{self._spelling.value(each)}" for each in more)),)
        indent = " " * node.start_mark.column
        at = self._end_of_line(end)
        line_end = self._spelling.line_end
        return ((at, at, "".join(f"{line_end}{indent}- {self._spelling.value(each)}" for each in more)),)

    def _without(self, node: SequenceNode, index: int, gone: list[int]) -> tuple[Splice, ...]:
        spans = [(item.start_mark.index, self._end(item)) for item in node.value]
        if not node.flow_style:
            hyphen = self.text.rindex("-", 0, spans[index][0])
            return (self._lines_of(hyphen, spans[index][1]),)
        if len(gone) > 1:
            raise Unclear
        return self._without_item(spans, index)

    def _without_item(self, spans: Sequence[tuple[int, int]], index: int) -> tuple[Splice, ...]:
        """Remove one of several that commas separate, with the comma that goes with it."""
        start, end = spans[index]
        space = self._space.match(self.text, end)
        assert space is not None
        has_comma = self.text[space.end()] == ","
        after = space.end() + 1 if has_comma else end
        is_last = index == len(spans) - 1
        if not is_last and self.text.count("\n", after, spans[index + 1][0]) == 0:
            return ((start, spans[index + 1][0], ""),)
        line_start, line_end, _ = self._lines_of(start, after)
        own_lines = not self.text[line_start:start].strip() and self.text[line_end - 1 : line_end] in "\r\n"
        whole = (line_start, line_end, "") if own_lines else (start, after, "")
        if not is_last or has_comma or index == 0:
            return (whole,)
        before = self._space.match(self.text, spans[index - 1][1])
        assert before is not None
        comma = before.end()
        return ((comma, comma + 1, ""), whole) if own_lines else ((comma, after, ""),)

    def _lines_of(self, start: int, end: int) -> Splice:
        """Return the splice that removes what stands between two indexes, with its indent and the end of its line."""
        first = start - self._column_of(start)
        if self.text[first:start].strip():
            return start, end, ""
        rest = self._end_of_line(end)
        line_end = _LINE_END.match(self.text, rest)
        if line_end is not None:
            return first, line_end.end(), ""
        return (first, rest, "") if rest == len(self.text) else (start, end, "")

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

    def _end_of_entry(self, mapping: MappingNode, index: int = -1) -> int:
        key, value = mapping.value[index]
        if not _is_blank(value):
            return self._end(value)
        colon = self._colon(key)
        end: int = key.end_mark.index
        return end if colon is None else colon

    def _end(self, node: LaidNode) -> int:
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

    def _colon(self, key: LaidNode) -> int | None:
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


def _is_blank(node: LaidNode) -> bool:
    return isinstance(node, ScalarNode) and node.start_mark.index == node.end_mark.index
