"""How values are written in a YAML or JSON text, and how a text says which part of it is replaced."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Union

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
        return f"{{{self.entries(tree)}}}" if isinstance(tree, Mapping) else self.value(tree)

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

    def _key(self, key: str) -> str:
        return key if self._is_plain(_PLAIN_KEY, key) else self._quote(key)

    def value(self, value: Value) -> str:
        """Write a value, or an item of a list; in YAML a hyphen or a number is quoted too."""
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int | float):
            return json.dumps(value)
        if not isinstance(value, str):
            return f"[{', '.join(map(self.value, value))}]"
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


class Unclear(Exception):
    """A value is written in a way that is not edited: a list, a text over several lines."""
