"""Setting values in a YAML or JSON text without touching any other byte, and replacing the file atomically."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from callability.contract.finding import Place, as_code
from callability.files import document
from callability.files.document import Node, is_json
from callability.files.spelling import Spelling, Splice, Tree, Unclear, Value
from callability.process.regular_file import replacing

if TYPE_CHECKING:
    from ruamel.yaml.nodes import Node as LaidNode

    from callability.files.layout import Layout

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
    from callability.files.layout import Layout  # noqa: PLC0415  # a gateway that edits nothing does without ruamel

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
    entries = document.entries_of(node)
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
        below = document.node_at(node, key)
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
