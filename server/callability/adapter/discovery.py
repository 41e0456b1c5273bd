"""The answer of `retrieve_tools`: its arguments, the words of its query, callable tools and locked ones (A.4)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import zip_longest
from typing import Any

from callability.adapter.judgement import JudgedTool, Judgement, ToolText
from callability.adapter.texts import JsonNumber, Phrases, error_result
from callability.contract.vocabulary import is_plain

MAX_WORD = 64
"""A longer run of letters counts as several words, both in a name and in a query."""

_STOP_WORDS = (
    "a an and are as at be but by can do does for from has have how i if in into is it its me my no not of on or our"
    " please so some such that the their then there these they this to us was we what when where which who will with"
    " would you your"
)
STOP_WORDS = frozenset(_STOP_WORDS.split())
"""Words that say nothing about what a tool does."""

_HUMP = re.compile(r"[A-Z](?:(?<=[a-z0-9].)|(?<=[A-Z].)(?=[a-z]))")
_WORD = re.compile(rf"[A-Za-z0-9]{{1,{MAX_WORD}}}")


def name_words(text: str) -> tuple[str, ...]:
    """Split a text at every character that is no ASCII letter or digit and at camelCase humps, in small letters.

    Names that may be shown are ASCII (spec A.3), so that nothing else needs to match.
    """
    return tuple(word.lower() for word in _WORD.findall(_HUMP.sub(r" \g<0>", text)))


def without_stop_words(found: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words without stop words."""
    return tuple(word for word in found if word not in STOP_WORDS)


def has_a_word(text: str) -> bool:
    """Say whether a text has a letter or a number of any script: Unicode's general categories L and N."""
    return any(unicodedata.category(character)[0] in "LN" for character in text)


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
        raise InvalidArgument(f"`limit` must be a whole number from 1 to {MAX_LIMIT}, and is {_limit_text(limit)}")
    return int(limit)


def invalid_argument(error: InvalidArgument) -> dict[str, Any]:
    """Return the MCP tool result for a call with an argument that is not as the schema says."""
    return error_result(f"Not done: {error}.")


def _limit_text(limit: object) -> str:
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


MAX_LOCKED = 10
"""Locked entries in one answer, whatever the limit (SC-004)."""

INCLUDE_DISABLED_SENTENCE = (
    "Set `include_disabled` to true to also see tools that exist but cannot be called, why, and who can change that."
)
"""For the description of the discovery tool, on every transport (FR-014)."""

INCLUDE_DISABLED_SCHEMA: Mapping[str, Any] = {
    "type": "boolean",
    "default": False,
    "description": "Also return tools that exist but cannot be called, with the reason and the remedy.",
}
"""The parameter in the schema of the discovery tool, on every transport (FR-014)."""

_SHORTEST_WORD = 2
_MOST_WORDS = 256
"""Different words of a query that are looked for in names."""


def found_by_name(query: str, tools: Iterable[JudgedTool]) -> tuple[JudgedTool, ...]:
    """Return the tools that a query finds by their names alone: by query words matched, most first, then by name.

    A word of two letters or more that is no stop word matches if it is or begins a word of the tool's or its
    server's name. Words are of ASCII letters and digits, and capitals count as small letters.
    """
    wanted = [word for word in without_stop_words(name_words(query)) if len(word) >= _SHORTEST_WORD]
    distinct = tuple(dict.fromkeys(wanted))[:_MOST_WORDS]
    beginnings = [f" {word}" for word in distinct]
    ranked = []
    for tool in tools:
        parts = _parts_of(tool.server, tool.tool)
        matched = sum([beginning in parts for beginning in beginnings])
        if matched:
            ranked.append((-matched, tool.name, tool))
    return tuple(tool for _, _, tool in sorted(ranked, key=lambda row: row[:2]))


@lru_cache(maxsize=32_768)
def _parts_of(server: str, tool: str) -> str:
    """Return the words of a tool's names, each after a space; they are the same for every query."""
    return "".join(f" {word}" for word in (*name_words(tool), *name_words(server)))


def discovery(
    judgement: Judgement,
    query: str,
    *,
    found: Sequence[str],
    found_locked: Sequence[str] = (),
    texts: Mapping[str, ToolText],
    phrases: Phrases,
    limit: int = DEFAULT_LIMIT,
    include_disabled: bool = False,
    not_loaded: Sequence[str] = (),
    only_by_meaning: bool = False,
) -> dict[str, Any]:
    """Return the JSON object that answers a query.

    Args:
        judgement: the tools that the caller may see.
        query: what was asked for; locked tools whose text is withheld or not known are found by it here, by their
            names alone.
        found: the qualified names of what the proxy's search found among the callable tools alone, best first.
        found_locked: what its search found among the locked tools whose text is not withheld, best first.
        texts: what is known of the tools' texts, by qualified name. Those of withheld tools are not looked at.
        phrases: the proxy's own action phrases.
        limit: the maximum number of callable tools, 1 to 100.
        include_disabled: whether to show the locked tools that the query finds.
        not_loaded: what to say of the caller's servers whose tools did not load, from `load_messages`; it is said where
            nothing callable was found, since what is looked for may be among them (L-7).
        only_by_meaning: nothing in `found` was found by words. Nearest neighbours always exist, so that what is said if
            nothing was found is said beside them.

    Without `include_disabled` the answer is the same as if locked tools did not exist, except for `notice` if nothing
    callable was found, or nothing by words (FR-002, FR-009).

    Raises:
        InvalidArgument: the limit is out of its range.
    """
    limit = checked_limit(limit)
    hits = [tool for name in dict.fromkeys(found) if (tool := judgement.by_name.get(name)) and tool.callable][:limit]
    shown = [_entry(tool, texts.get(tool.name)) for tool in hits]
    answer: dict[str, Any] = {"tools": shown, "total": len(shown)}
    found_any = bool(shown) and not only_by_meaning
    if not include_disabled and found_any:
        return answer
    locked = tuple(_merge_locked(judgement, query, found_locked, texts))
    said = () if found_any else tuple(not_loaded)
    if locked and include_disabled:
        answer |= _disabled_part(judgement, locked, texts, phrases, min(limit, MAX_LOCKED))
    elif locked:
        said = (_notice(len(locked)), *said)
    return answer | ({"notice": " ".join(said)} if said else {})


def _merge_locked(
    judgement: Judgement, query: str, found_locked: Sequence[str], texts: Mapping[str, ToolText]
) -> Iterator[JudgedTool]:
    """Merge the tools found by text and those found by name alone, alternating, a text hit first (FR-006)."""

    def has_text(tool: JudgedTool) -> bool:
        return not tool.withhold_text and tool.name in texts

    hits = (judgement.by_name.get(name) for name in dict.fromkeys(found_locked))
    by_text = [tool for tool in hits if tool and not tool.callable and has_text(tool)]
    by_name = [tool for tool in found_by_name(query, judgement.locked) if not has_text(tool)]
    for pair in zip_longest(by_text, by_name):
        yield from (tool for tool in pair if tool is not None)


def _disabled_part(
    judgement: Judgement, locked: Sequence[JudgedTool], texts: Mapping[str, ToolText], phrases: Phrases, most: int
) -> dict[str, Any]:
    shown = [tool for tool in locked if not tool.withhold_text or is_plain(tool.tool)][:most]
    answer: dict[str, Any] = {
        "disabled": [_locked_entry(tool, texts.get(tool.name)) for tool in shown],
        "remediation": judgement.remediation(shown, phrases),
    }
    return answer | ({"disabled_total": len(locked)} if len(locked) > len(shown) else {})


def _entry(tool: JudgedTool, text: ToolText | None) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": tool.name, "server": tool.server}
    if text and not tool.withhold_text:
        given = {"description": text.description, "inputSchema": text.input_schema, "annotations": text.annotations}
        entry |= {key: value for key, value in given.items() if value is not None}
    return entry


def _locked_entry(tool: JudgedTool, text: ToolText | None) -> dict[str, Any]:
    entry = {"name": tool.name, "server": tool.server}
    if text and text.description is not None and not tool.withhold_text:
        entry["description"] = text.description
    return entry | {"status": str(tool.status)}


def _notice(count: int) -> str:
    exist = "matching tool exists" if count == 1 else "matching tools exist"
    how = "repeat with `include_disabled: true` to see why and who can change that"
    return f"{count} {exist} but cannot be called; {how}."
