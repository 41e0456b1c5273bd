"""The fingerprint by which an approval recognizes a tool: the digest of the part that a person approves."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from mcp_types import Tool


def approved_part(tool: Tool) -> dict[str, Any]:
    """Return the part of a tool that a person approves, as MCP writes it: all that is searched, shown or decided by.

    What the tool does not give is left out.
    """
    return tool.model_dump(
        mode="json",
        by_alias=True,
        exclude_none=True,
        include={"name", "title", "description", "input_schema", "output_schema", "annotations"},
    )


def canonical_form(part: dict[str, Any]) -> bytes:
    """Return JSON in UTF-8 without white space, its keys sorted by code point at every depth, and every character that
    need not be escaped written as itself.
    """
    text = json.dumps(part, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass")


def fingerprint(tool: Tool) -> str:
    """Return the SHA-256, in hexadecimal, of the canonical form of what is approved of a tool."""
    return hashlib.sha256(canonical_form(approved_part(tool))).hexdigest()
