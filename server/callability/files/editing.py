"""Setting values in a YAML or JSON text without touching any other byte, and replacing the file atomically."""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union

from ruamel.yaml import YAML
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode
from ruamel.yaml.nodes import Node as LaidNode

from callability.contract.finding import Place, as_code
from callability.files import document
from callability.files.document import Node, is_json
from callability.process.regular_file import replacing

Value = str | bool | int | float | Sequence[str]
Tree = Mapping[str, Union[Value, "Tree"]]
"""Values, each under the keys that lead to it; a list of texts is one value."""

# YAML 1.1 reads these as truth values or as nothing, and many programs still do.
_OTHERWISE_READ = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
_PLAIN_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
# A digest may look like a number (`1e5…`), so a value with a digit is always quoted.
_PLAIN_VALUE = re.compile(r"[A-Za-z][A-Za-z_.-]*")


@dataclass(frozen=True, slots=True)
class Spelling:
    """The syntax of one file; `line_end` is its own."""

    is_json: bool
    line_end: str = "\n"

    def flow(self, tree: Value | Tree) -> str:
        """Write a value, or a mapping within braces, in one line."""
        return f"{{{self.entries(tree)}}}" if isinstance(tree, Mapping) else self._value(tree)

    def entries(self, tree: Tree) -> str:
        """Write what stands within the braces of a mapping, in one line."""
        return ", ".join(f"{self._key(key)}: {self.flow(below)}" for key, below in tree.items())

    def lines(self, tree: Tree, indent: str, unit: str, *, braces: bool) -> str:
        """Write each key in lines of its own: a record in one line, what holds records in several."""
        end = f",{self.line_end}" if braces else self.line_end
        return end.join(self._lines(key, below, indent, unit, braces=braces) for key, below in tree.items())

    def _lines(self, key: str, tree: Value | Tree, indent: str, unit: str, *, braces: bool) -> str:
        if not isinstance(tree, Mapping) or not any(isinstance(below, Mapping) for below in tree.values()):
            return f"{indent}{self._key(key)}: {self.flow(tree)}"
        inner = self.lines(tree, indent + unit, unit, braces=braces)
        if braces:
            return f"{indent}{self._key(key)}: {{{self.line_end}{inner}{self.line_end}{indent}}}"
        return f"{indent}{self._key(key)}:{self.line_end}{inner}"

    def item(self, text: str) -> str:
        """Write an item of a list; in YAML a hyphen or a number is quoted too."""
        return self._value(text)

    def _key(self, key: str) -> str:
        return key if self._is_plain(_PLAIN_KEY, key) else self._quote(key)

    def _value(self, value: Value) -> str:
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int | float):
            return json.dumps(value)
        if not isinstance(value, str):
            return f"[{', '.join(map(self.item, value))}]"
        return value if self._is_plain(_PLAIN_VALUE, value) else self._quote(value)

    def _is_plain(self, pattern: re.Pattern[str], text: str) -> bool:
        return not self.is_json and pattern.fullmatch(text) is not None and text.lower() not in _OTHERWISE_READ

    def _quote(self, text: str) -> str:
        double = f'"{"".join(map(self._character, text))}"'
        if self.is_json or not text.isprintable():
            return double
        # A key of more than 1,024 characters is none; within single quotes, fewer characters are escaped.
        single = "'" + text.replace("'", "''") + "'"
        return min(double, single, key=len)

    def _character(self, character: str) -> str:
        if character.isprintable() and character not in '"\\':
            return character
        if self.is_json or ord(character) <= 0xFFFF:
            return json.dumps(character)[1:-1]
        return f"\\U{ord(character):08x}"


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
    text = _NOT_IN_YAML.sub(" ", document.without_comments(text))
    return document.KEY_AND_COLON.sub(lambda found: f"{found[1]}:{' ' * len(found[2])}" if found[2] else found[0], text)


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
            return ((end, end, "".join(f"{between}{self._spelling.item(each)}" for each in more)),)
        indent = " " * node.start_mark.column
        at = self._end_of_line(end)
        line_end = self._spelling.line_end
        return ((at, at, "".join(f"{line_end}{indent}- {self._spelling.item(each)}" for each in more)),)

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


_BOM = b"\xef\xbb\xbf"


class EditRefused(Exception):
    """Values that cannot be set without touching something else; the message says where, and what to do by hand."""


def edited_bytes(data: bytes, file: str, tree: Tree) -> bytes:
    """Return the bytes of a file in which values are set, or the same bytes where they say so already.

    Mappings that are not there yet are made. `file` is the name in errors; one that ends in `.json` or `.jsonc` is
    that of a JSON file, any other that of YAML.

    Raises:
        document.Refused: the file is not one well-formed document.
        EditRefused: the values cannot be set there.
    """
    root = document.parse(data, file)
    before = document.plain(root)
    try:
        after = _change(before, tree)
        # Their representations distinguish `true` from `1` and keep the order of the keys; equality does neither.
        if repr(after) == repr(before):
            return data
        result = _splice(data, file, root, tree)
    except Unclear:
        raise _refusal(root, tree) from None
    if not _says(result, file, after):
        raise _refusal(root, tree)
    return result


def new_file(file: str, tree: Tree) -> bytes:
    """Return the bytes of a new file that holds values and nothing else.

    Raises:
        EditRefused: no file of this kind can hold the values so that they can be read again.
    """
    in_json = is_json(file)
    lines = Spelling(in_json).lines(tree, "  " if in_json else "", "  ", braces=in_json)
    result = (f"{{\n{lines}\n}}\n" if in_json else f"{lines}\n").encode("utf-8", "surrogatepass")
    if not _says(result, file, _change(None, tree)):
        raise EditRefused(f"{Place(file)}: these values cannot be written so that they can be read again")
    return result


def without(data: bytes, file: str, keys: tuple[str, ...]) -> bytes:
    """Return the bytes of a file without one entry of a mapping, or the same bytes where it has none.

    Comments in lines of their own stay.

    Raises:
        document.Refused: the file is not one well-formed document.
        EditRefused: the entry cannot be removed without touching something else.
    """
    root = document.parse(data, file)
    wanted: Any = document.plain(root)
    node, above = root, wanted
    layout, bom = _lay_out(data, file)
    laid = layout.root
    for number, key in enumerate(keys, 1):
        names = [name.value for name, _ in node.entries] if isinstance(node, document.DocumentMapping) else []
        if key not in names:
            return data
        index = names.index(key)
        if number < len(keys):
            assert isinstance(node, document.DocumentMapping)
            node, laid, above = node.entries[index][1], layout.value(laid, index), above[key]
            continue
        del above[key]
        result = bom + _apply_splices(layout.text, layout.without_entry(laid, index))
        if _says(result, file, wanted):
            return result
    raise EditRefused(
        f"{_nearest(root, keys)}: this cannot be edited without touching something else; edit it by hand: remove"
        f" {as_code(keys[-1])}"
    )


def _says(data: bytes, file: str, wanted: object) -> bool:
    """Read the bytes of a file, and say whether they hold what is wanted.

    Raises:
        EditRefused: they could not be read again.
    """
    try:
        said = document.plain(document.parse(data, file))
    except document.Refused as refused:
        finding = refused.findings[0]
        raise EditRefused(
            f"{Place(file)}: nothing was changed, since the file could not be read again afterwards: {finding.sentence}"
        ) from refused
    return repr(said) == repr(wanted)


def _splice(data: bytes, file: str, root: Node, tree: Tree) -> bytes:
    layout, bom = _lay_out(data, file)
    return bom + _apply_splices(layout.text, _splices(layout, root, layout.root, tree))


def _lay_out(data: bytes, file: str) -> tuple[Layout, bytes]:
    """Return the layout of a file, and the mark in front of it."""
    bom = _BOM if data.startswith(_BOM) else b""
    return Layout(data.removeprefix(bom).decode(), is_json=is_json(file)), bom


def _apply_splices(text: str, splices: Iterable[Splice]) -> bytes:
    parts, done = [], 0
    # Of two at the same place the inner one comes first: the sort keeps their order.
    for start, end, new in sorted(splices, key=lambda splice: splice[0]):
        parts += [text[done:start], new]
        done = end
    return "".join((*parts, text[done:])).encode("utf-8", "surrogatepass")


def _splices(layout: Layout, node: Node, laid: LaidNode, tree: Tree) -> Iterator[Splice]:
    """Follow the keys as far as they lead; what is not there is written at the end of the last mapping."""
    entries = node.entries if isinstance(node, document.DocumentMapping) else ()
    at = {name.value: index for index, (name, _) in enumerate(entries)}
    for key in (key for key in tree if key in at):
        below, value = tree[key], entries[at[key]][1]
        if isinstance(below, Mapping) and isinstance(value, document.DocumentMapping):
            yield from _splices(layout, value, layout.value(laid, at[key]), below)
        elif isinstance(value, document.DocumentSequence) and isinstance(below, list | tuple):
            yield from layout.with_items(laid, at[key], document.plain(value), below)
        elif not isinstance(value, document.Scalar) or repr(value.value) != repr(below):
            yield from layout.replacement(laid, at[key], below)
    missing = {key: below for key, below in tree.items() if key not in at}
    if missing:
        yield from layout.insert_entries(laid, missing)


def _change(data: object, tree: Value | Tree) -> object:
    if not isinstance(tree, Mapping):
        return [*tree] if isinstance(tree, tuple) else tree
    if not isinstance(data, Mapping | None):
        raise Unclear
    mapping: Mapping[str, Any] = data or {}
    return {**mapping, **{key: _change(mapping.get(key), below) for key, below in tree.items()}}


def _refusal(root: Node, tree: Tree) -> EditRefused:
    (keys, value), *others = _values(tree)
    wanted = value if isinstance(value, str) else Spelling(is_json=True).flow(value)
    under = f" under {', '.join(map(as_code, keys[:-1]))}" if keys[:-1] else ""
    more = f", and {len(others)} more" if others else ""
    sentence = "this cannot be edited without touching something else; edit it by hand"
    return EditRefused(f"{_nearest(root, keys)}: {sentence}: set {as_code(keys[-1])} to {as_code(wanted)}{under}{more}")


def _values(tree: Tree, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Value]]:
    for key, below in tree.items():
        if isinstance(below, Mapping):
            yield from _values(below, (*above, key))
        else:
            yield (*above, key), below


def _nearest(root: Node, keys: tuple[str, ...]) -> Place:
    """Return the place of what keys lead to, as far as they do."""
    node = root
    for key in keys:
        below = node.get(key) if isinstance(node, document.DocumentMapping) else None
        if below is None:
            break
        node = below
    return node.place


def rewrite(path: Path, tree: Tree | Callable[[], Tree], *, create: bool = False, touch: bool = False) -> bool:
    """Set values in a file, all of them or none, and return whether its content changed.

    A function returns the values while no other command can change the file.

    A symbolic link leads to the file that is changed. `create`: a file that does not exist is created. `touch`: the
    file is written even if its content stays the same, so that a program that follows it notices.

    Raises:
        document.Refused: the file cannot be read, or is not one well-formed document.
        EditRefused: a value cannot be set without touching something else.
        OSError: the file cannot be written; it is as it was.
    """
    target = path.resolve()
    with turn(target.parent):
        wanted = tree() if callable(tree) else tree
        if create and not target.exists():
            replace(target, new_file(target.name, wanted))
            return True
        old = document.read_bytes(target, str(path))
        new = edited_bytes(old, str(path), wanted)
        if touch or new != old:
            replace(target, new)
        return new != old


class ChangedMeanwhile(Exception):
    """A file is not the one that was read."""


def overwrite(path: Path, data: bytes, *, only_if: str) -> None:
    """Put data in the place of a file that still has a digest, or that is still not there where that is empty.

    Raises:
        ChangedMeanwhile: it is another file by now; nothing was written.
        document.Refused: the file cannot be read.
        OSError: the file cannot be written; it is as it was.
    """
    target = path.resolve()
    with turn(target.parent):
        now = document.digest(document.read_bytes(target, str(path))) if target.exists() else ""
        if now != only_if:
            raise ChangedMeanwhile(str(path))
        replace(target, data)


def replace(target: Path, data: bytes, *, mode: int | None = None) -> None:
    """Put a file in the place of another, if there is one, at once and with its owner and mode, or with a `mode`.

    Raises:
        OSError: it cannot be written; what was there is as it was.
    """
    with replacing(target, 0o666 if mode is None else mode) as file:
        if mode is not None:
            os.fchmod(file.fileno(), mode)
        file.write(data)


@contextmanager
def turn(directory: Path) -> Iterator[None]:
    """Wait until no other command changes a file of a directory; a file that is replaced cannot be waited for."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
