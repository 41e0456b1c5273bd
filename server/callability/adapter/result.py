"""MCP tool results: an object as structured content, and as JSON in one text block."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from callability.adapter.json_text import json_text, portable, well_formed


def tool_result(
    structured: Mapping[str, Any] | None, *, text: str | None = None, is_error: bool = False
) -> dict[str, Any]:
    """Return a `CallToolResult` as JSON; without a `text` of its own the block holds the structured content's JSON."""
    found, written = portable(None if structured is None else dict(structured))
    text = written if text is None else well_formed(text)
    result: dict[str, Any] = {"content": [{"type": "text", "text": text}]}
    if structured is not None:
        result["structuredContent"] = found
    return result | {"isError": is_error}


def result_json(result: Mapping[str, Any]) -> str:
    """Return a tool result as the JSON text that a proxy sends, to the byte in UTF-8 what every language sends."""
    return json_text(result)


def error_result(text: str) -> dict[str, Any]:
    """Return a tool result that is an error and has only a text."""
    return tool_result(None, text=text, is_error=True)
