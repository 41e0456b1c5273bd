"""The content of a config file as dictionaries, lists and values."""

from __future__ import annotations

from callability.document import Mapping, Node, Scalar, plain


def content(node: Node, *above: object) -> object:
    """Return a node as `document.plain` does, but whole numbers among facts as they are written.

    A policy compares texts: to it, `00` is not `0`. `above` are the keys that lead to the node.
    """
    match node, above:
        case Mapping(entries=entries), _:
            return {key.value: content(value, *above, key.value) for key, value in entries}
        case Scalar(word=word), (_, _, "facts" | "tool_fact_defaults", _) | (_, _, "tool_facts", _, _):
            return word
        case _:
            return plain(node)
