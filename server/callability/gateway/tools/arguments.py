"""Checks the arguments of a call, which the MCP library passes on unchecked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from callability.adapter import InvalidArgument
from callability.finding import did_you_mean, shown


def undeclared(arguments: Mapping[str, Any], *declared: str) -> None:
    """Refuse arguments that the schema does not have: a misspelt one would be ignored without a word.

    Raises:
        InvalidArgument: there is one.
    """
    for name in arguments:
        if name not in declared:
            hint = did_you_mean(name[:128], declared)
            raise InvalidArgument(f"there is no argument {shown(name)} ({hint})")


def text_of(arguments: Mapping[str, Any], name: str, *, default: str | None = None) -> str:
    """Return an argument that is text and not empty.

    Raises:
        InvalidArgument: it is missing, empty or no text.
    """
    value = arguments.get(name)
    value = default if value is None else value
    if not isinstance(value, str) or not value:
        raise InvalidArgument(
            f"`{name}` must be text, and is {'empty or not given' if not value else 'something else'}"
        )
    return value
