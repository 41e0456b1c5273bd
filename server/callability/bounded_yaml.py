"""YAML 1.2 parsed into the library's nodes within bounds: reading time is linear in the number of nodes."""

from __future__ import annotations

import warnings
from threading import Lock
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer, MaxDepthExceededError
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.nodes import Node

from callability.document import MAX_DEPTH

MAX_VALUES = 50_000
"""Values of a file, keys and what holds others among them."""

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


def compose(text: str) -> Node | None:
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
        node: Node | None = yaml.compose(text)
    return node
