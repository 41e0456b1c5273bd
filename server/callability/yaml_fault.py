"""What is wrong with a text that is not YAML: place, problem and hint, and none of the text, which may be secret."""

from __future__ import annotations

import re
from typing import NamedTuple

from ruamel.yaml.error import MarkedYAMLError, StringMark

_QUOTE = "quote a sentence that begins with `{` or contains `: `"
_STRAY = re.compile(r"(?:found|got) '([\]},])'")
_PAIRS = {"[": "]", "{": "}"}
_INDENT = "indent each entry of a list or mapping like the entries above it"


class Fault(NamedTuple):
    """Line and column count from 1, and are 0 if the library gives no place."""

    line: int
    column: int
    problem: str
    hint: str


def fault(error: MarkedYAMLError, text: str) -> Fault:
    """Return what the YAML library found in a text."""
    found = f"{error.context} {error.problem}"
    mark, opening = error.problem_mark or error.context_mark, error.context_mark
    if "undefined alias" in found:
        return _at(mark, "an alias (`*name`) refers to nothing", "quote a text that begins with `*`")
    if "while scanning an alias" in found:
        return _at(mark, "a `*` begins an alias, and no name follows", "quote a text that begins with `*`")
    if "character '\\t'" in found:
        return _at(mark, "a tab is used where only spaces are allowed", "indent with spaces")
    if "cannot start any token" in found:
        return _at(mark, "an unquoted text cannot begin with this character", "quote the text")
    if "another document" in found:
        return _at(mark, "a second document begins here", "write one document in a file")
    if "mapping values are not allowed" in found:
        return _colon(mark, text)
    if "quoted scalar" in found:
        return _at(opening or mark, "a quoted text is not closed", "")
    stray = _STRAY.search(found)
    # The library may take a wrong closing bracket for an entry, and give its place as that of the opening one.
    if "flow" in found and opening is not None and _bracket(opening, text) in _PAIRS:
        return _unclosed(mark, opening, text, closing=stray[1] if stray else "")
    if stray:
        problem = "this `,` separates nothing" if stray[1] == "," else f"this `{stray[1]}` closes nothing"
        return _at(mark, problem, "remove it")
    if "but found '<scalar>'" in found:
        return _at(mark, "text follows a value that has ended", _QUOTE)
    if "block" in found:
        return _at(mark, "the indentation of this line matches no line above", _INDENT)
    return _at(mark, "this cannot be parsed", "")


def _at(mark: StringMark | None, problem: str, hint: str) -> Fault:
    return Fault(mark.line + 1, mark.column + 1, problem, hint) if mark else Fault(0, 0, problem, hint)


def _unclosed(mark: StringMark | None, opening: StringMark, text: str, *, closing: str) -> Fault:
    """Distinguish a wrong closing bracket from one that is missing."""
    bracket = _bracket(opening, text)
    if closing in _PAIRS.values():
        problem = f"this `{closing}` does not close the `{bracket}` in line {opening.line + 1}"
        return _at(mark, problem, f"write `{_PAIRS[bracket]}` before it, or remove it")
    problem = f"the `{bracket}` in line {opening.line + 1} is not closed, or a comma is missing"
    return _at(mark, problem, "quote a sentence that begins with `{`" if bracket == "{" else "")


def _bracket(opening: StringMark, text: str) -> str:
    return _line(text, opening.line)[opening.column : opening.column + 1]


def _colon(mark: StringMark | None, text: str) -> Fault:
    """Distinguish a second colon in a line from a key that stands too deep."""
    if mark is not None and ": " not in _line(text, mark.line)[: mark.column]:
        hint = "indent the key like the keys around it, and end the key of the line above with `: `"
        return _at(mark, "a key is not allowed here", hint)
    return _at(mark, "this line has a second `: `", _QUOTE)


def _line(text: str, number: int) -> str:
    return (re.split(r"\r\n|\r|\n", text)[number : number + 1] or [""])[0]
