"""An MCP tool result: an object as structured content, and as JSON in one text block."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def tool_result(
    structured: Mapping[str, Any] | None, *, text: str | None = None, is_error: bool = False
) -> dict[str, Any]:
    """Return a `CallToolResult` as JSON; without a `text` of its own the block holds the structured content's JSON."""
    if text is None:
        text = json.dumps(structured, ensure_ascii=False, separators=(",", ":"))
    result: dict[str, Any] = {"content": [{"type": "text", "text": text}]}
    if structured is not None:
        result["structuredContent"] = dict(structured)
    return result | {"isError": is_error}


def error_result(text: str) -> dict[str, Any]:
    """Return a tool result that is an error and has only a text."""
    return tool_result(None, text=text, is_error=True)
