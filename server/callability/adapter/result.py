"""MCP tool results: an object as structured content, and as JSON in one text block."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def tool_result(
    structured: Mapping[str, Any] | None, *, text: str | None = None, is_error: bool = False
) -> dict[str, Any]:
    """Return a `CallToolResult` as JSON; without a `text` of its own the block holds the structured content's JSON."""
    structured, json_text = _sound(structured)
    result: dict[str, Any] = {"content": [{"type": "text", "text": json_text if text is None else text}]}
    if structured is not None:
        result["structuredContent"] = structured
    return result | {"isError": is_error}


def _sound(structured: Mapping[str, Any] | None) -> tuple[dict[str, Any] | None, str]:
    """Return an object with its JSON; what JSON cannot hold, and an upstream may send all the same, is replaced."""
    found = None if structured is None else dict(structured)
    try:
        text = json.dumps(found, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        text.encode()
    except ValueError:
        found = _replaced(found)
        text = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    return found, text


def _replaced(value: Any) -> Any:
    match value:
        case str():
            return value.encode(errors="replace").decode()
        case float() if not math.isfinite(value):
            return None
        case Mapping():
            return {_replaced(key): _replaced(each) for key, each in value.items()}
        case list() | tuple():
            return [_replaced(each) for each in value]
    return value


def error_result(text: str) -> dict[str, Any]:
    """Return a tool result that is an error and has only a text."""
    return tool_result(None, text=text, is_error=True)
