"""Explains what is wrong with a list of tools that is not MCP, naming the tool."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mcp_types import Tool
from pydantic import ValidationError

from callability.gateway.upstream.failure import NOT_MCP, Failure
from callability.vocabulary import LoadFailure, LoadPhase

MOST_NESTED = 200
"""Levels of JSON that the SDK reads in one message."""
_TOOL_LEVEL = 4
"""Levels down to a tool: the message, its result, the list, the tool."""
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
# A string that is not closed takes the rest: otherwise each quote in it would be tried as the beginning of another.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
_MOST_LOOKED_AT = 1024 * 1024
"""Bytes of an answer in which the tool is looked for that is nested too deeply."""
_FIELDS = frozenset(info.alias or name for name, info in Tool.model_fields.items())


@dataclass(frozen=True, slots=True)
class UnreadAnswer:
    """An answer that is no message: the `data` of the error that replaces it, which no upstream can send."""

    text: bytes = field(repr=False)


class ListFault(Exception):
    """The tools cannot be read from the list."""

    def __init__(self, words: str) -> None:
        super().__init__(words)
        self.failure = Failure(words, exception=type(self).__name__, kind=LoadFailure.NOT_MCP, phase=LoadPhase.RESPONSE)


def fault_of_shape(error: ValidationError, result: Mapping[str, Any]) -> ListFault:
    """Return what is wrong with a result that is JSON and no list of tools."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = first["loc"]
    if len(place) < 2 or place[0] != "tools" or not isinstance(place[1], int):
        return ListFault(f"{NOT_MCP}: the result of `tools/list` has no list `tools`")
    tools = result.get("tools")
    tool = tools[place[1]] if isinstance(tools, list) and place[1] < len(tools) else None
    name = tool.get("name") if isinstance(tool, dict) else None
    wrong = "is not an object"
    if len(place) > 2 and place[2] in _FIELDS:
        missing = len(place) == 3 and first["type"] == "missing"
        wrong = f"has no `{place[2]}`" if missing else f"has no valid `{place[2]}`"
    elif len(place) > 2:
        wrong = "is not valid"
    return ListFault(f"{NOT_MCP}: {_which(place[1], name)} {wrong}")


def fault_of_text(text: bytes) -> ListFault:
    """Return what is wrong with a text that the SDK cannot read as a message."""
    deep = _too_deep(text[:_MOST_LOOKED_AT].decode("utf-8", "replace"))
    return ListFault(NOT_MCP if deep is None else f"{NOT_MCP}: {deep} is nested more than {MOST_NESTED} levels deep")


def _which(index: int, name: object) -> str:
    return f"tool `{name}`" if isinstance(name, str) and _NAME.fullmatch(name) else f"tool number {index + 1}"


def _too_deep(text: str) -> str | None:
    """Return which tool is nested too deeply, in a text that may be nested too deeply for any parser."""
    level, index, is_deep = 0, -1, False
    member = last = name = ""
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in "[{":
            level += 1
            if level == _TOOL_LEVEL and member == '"tools"':
                index, name = index + 1, ""
            is_deep = is_deep or level > MOST_NESTED
        elif token in "]}":
            level -= 1
            if is_deep and level < _TOOL_LEVEL:
                break
        elif level == _TOOL_LEVEL - 2:
            member = token
        elif level == _TOOL_LEVEL:
            name = token if last == '"name"' else name
            last = token
    return _which(index, _string(name)) if is_deep and index >= 0 else None


def _string(token: str) -> object:
    try:
        return json.loads(token)
    except ValueError:
        return None
