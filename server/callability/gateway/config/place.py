"""Finds the places of values in a config file."""

from __future__ import annotations

from collections.abc import Iterable

from callability.document import Mapping, Node, Sequence
from callability.finding import Place


def found(root: Node, location: Iterable[int | str]) -> tuple[Node, Node]:
    """Return the key and the node at a location, as far as it leads; the key of an item is that of its list."""
    key = node = root
    held: tuple[Node, Node] | None
    for step in location:
        match node:
            case Mapping(entries=entries):
                held = next(((name, value) for name, value in entries if name.value == step), None)
            case Sequence(items=items) if isinstance(step, int) and step < len(items):
                held = (items[step], items[step])
            case _:
                held = None
        if held is None:
            break
        key, node = held
    return key, node


def place(root: Node, location: Iterable[int | str]) -> Place:
    """Return the place of a value, or of the nearest existing node above it."""
    return found(root, location)[1].place


def key_place(root: Node, location: Iterable[int | str]) -> Place:
    """Return the place of the key of a value, or of the nearest existing one above it."""
    return found(root, location)[0].place
