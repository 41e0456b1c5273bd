"""The arguments of the discovery tool, checked: an MCP library may pass them on unchecked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from callability.adapter.json_text import JsonNumber
from callability.adapter.name_words import has_a_word
from callability.adapter.result import error_result

DEFAULT_LIMIT = 15
"""Callable tools in an answer, if the call gives no limit."""
MAX_LIMIT = 100
"""The largest limit of a call, in tools."""
_SHOWN = 10**9
"""Numbers of ten digits and more are not repeated to the agent."""


@dataclass(frozen=True, slots=True)
class DiscoveryArguments:
    """The arguments of a call of `retrieve_tools`, checked: `limit` is 1 to 100 (A.4)."""

    query: str
    limit: int
    include_disabled: bool


Asked = DiscoveryArguments
"""The former name, kept for proxies that import it."""


def checked_arguments(arguments: Mapping[str, Any]) -> DiscoveryArguments:
    """Return the three arguments; others are ignored, and null counts as left out.

    Raises:
        InvalidArgument: one of them is not as the schema says.
    """
    include_disabled = arguments.get("include_disabled")
    include_disabled = False if include_disabled is None else include_disabled
    if not isinstance(include_disabled, bool):
        raise InvalidArgument(f"`include_disabled` must be true or false, and is {_kind(include_disabled)}")
    limit = arguments.get("limit")
    limit = DEFAULT_LIMIT if limit is None else checked_limit(limit)
    return DiscoveryArguments(checked_query(arguments.get("query")), limit, include_disabled)


class InvalidArgument(ValueError):
    """An argument of a call by the agent. The text says what was found and what is wanted."""


def checked_query(query: object) -> str:
    """Return a query.

    Raises:
        InvalidArgument: it is not text, or has no word.
    """
    if not isinstance(query, str):
        raise InvalidArgument(f"`query` must be text, and is {_kind(query)}")
    if not has_a_word(query):
        raise InvalidArgument("`query` is empty: it needs at least one word")
    return query


def checked_limit(limit: object) -> int:
    """Return a limit; a number with nothing behind the point is one.

    Raises:
        InvalidArgument: it is not a whole number from 1 to 100.
    """
    limit = limit.value if isinstance(limit, JsonNumber) else limit
    whole = isinstance(limit, int | float) and not isinstance(limit, bool) and limit == limit // 1
    if not whole or not isinstance(limit, int | float) or not 1 <= limit <= MAX_LIMIT:
        raise InvalidArgument(f"`limit` must be a whole number from 1 to {MAX_LIMIT}, and is {_shown(limit)}")
    return int(limit)


def invalid_argument(error: InvalidArgument) -> dict[str, Any]:
    """Return the MCP tool result for a call with an argument that is not as the schema says."""
    return error_result(f"Not done: {error}.")


def _shown(limit: object) -> str:
    """Return a number if it is short, so that every language writes it alike, and its kind otherwise."""
    if not isinstance(limit, int | float) or isinstance(limit, bool):
        return _kind(limit)
    if abs(limit) < _SHOWN:
        return str(int(limit)) if limit == limit // 1 else "a fraction"
    return "a number"


def _kind(value: object) -> str:
    match value:
        case None:
            return "not given"
        case bool():
            return "a truth value"
        case str():
            return "text"
        case list():
            return "a list"
        case dict():
            return "an object"
        case _:
            return "a number"
