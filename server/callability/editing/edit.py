"""Setting values in a YAML or JSON text without touching any other byte."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ruamel.yaml.nodes import Node as LaidNode

from callability import document
from callability.document import Node
from callability.editing.layout import Layout, Splice, Unclear
from callability.editing.spelling import Spelling, Tree, Value
from callability.finding import Place, shown
from callability.jsonc import is_json

_BOM = b"\xef\xbb\xbf"


class EditRefused(Exception):
    """Values that cannot be set without touching something else; the message says where, and what to do by hand."""


def edited(data: bytes, file: str, tree: Tree) -> bytes:
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
        after = _changed(before, tree)
        # Their representations distinguish `true` from `1` and keep the order of the keys; equality does neither.
        if repr(after) == repr(before):
            return data
        result = _spliced(data, file, root, tree)
    except Unclear:
        raise _refused(root, tree) from None
    if not _says(result, file, after):
        raise _refused(root, tree)
    return result


def created(file: str, tree: Tree) -> bytes:
    """Return the bytes of a new file that holds values and nothing else.

    Raises:
        EditRefused: no file of this kind can hold the values so that they can be read again.
    """
    in_json = is_json(file)
    lines = Spelling(in_json).lines(tree, "  " if in_json else "", "  ", braces=in_json)
    result = (f"{{\n{lines}\n}}\n" if in_json else f"{lines}\n").encode("utf-8", "surrogatepass")
    if not _says(result, file, _changed(None, tree)):
        raise EditRefused(f"{Place(file)}: these values cannot be written so that they can be read again")
    return result


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


def _spliced(data: bytes, file: str, root: Node, tree: Tree) -> bytes:
    bom = _BOM if data.startswith(_BOM) else b""
    layout = Layout(data.removeprefix(bom).decode(), is_json=is_json(file))
    parts, done = [], 0
    # Of two at the same place the inner one comes first: the sort keeps their order.
    for start, end, new in sorted(_splices(layout, root, layout.root, tree), key=lambda splice: splice[0]):
        parts += [layout.text[done:start], new]
        done = end
    return bom + "".join((*parts, layout.text[done:])).encode("utf-8", "surrogatepass")


def _splices(layout: Layout, node: Node, laid: LaidNode, tree: Tree) -> Iterator[Splice]:
    """Follow the keys as far as they lead; what is not there is written at the end of the last mapping."""
    entries = node.entries if isinstance(node, document.Mapping) else ()
    at = {name.value: index for index, (name, _) in enumerate(entries)}
    for key in (key for key in tree if key in at):
        below, value = tree[key], entries[at[key]][1]
        if isinstance(below, Mapping) and isinstance(value, document.Mapping):
            yield from _splices(layout, value, layout.value(laid, at[key]), below)
        elif not isinstance(value, document.Scalar) or repr(value.value) != repr(below):
            yield from layout.replaced(laid, at[key], below)
    missing = {key: below for key, below in tree.items() if key not in at}
    if missing:
        yield from layout.inserted(laid, missing)


def _changed(data: object, tree: Value | Tree) -> object:
    if not isinstance(tree, Mapping):
        return tree
    if not isinstance(data, Mapping | None):
        raise Unclear
    mapping: Mapping[str, Any] = data or {}
    return {**mapping, **{key: _changed(mapping.get(key), below) for key, below in tree.items()}}


def _refused(root: Node, tree: Tree) -> EditRefused:
    (keys, value), *others = _values(tree)
    wanted = str(value).lower() if isinstance(value, bool) else value
    under = f" under {', '.join(map(shown, keys[:-1]))}" if keys[:-1] else ""
    more = f", and {len(others)} more" if others else ""
    sentence = "this cannot be edited without touching something else; edit it by hand"
    return EditRefused(f"{_nearest(root, keys)}: {sentence}: set {shown(keys[-1])} to {shown(wanted)}{under}{more}")


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
        below = node.get(key) if isinstance(node, document.Mapping) else None
        if below is None:
            break
        node = below
    return node.place
