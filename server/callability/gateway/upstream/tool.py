"""A tool as its upstream lists it, and the fingerprint by which an approval knows it again."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from mcp_types import Tool


@dataclass(frozen=True, slots=True)
class UpstreamTool:
    """A tool of an upstream; of a server in quarantine only the name and the fingerprint are kept (A.4)."""

    name: str
    sha256: str
    definition: Tool | None = field(repr=False)

    def without_text(self) -> UpstreamTool:
        """Return what may be kept of the tool while its server is in quarantine."""
        return UpstreamTool(self.name, self.sha256, None)


def upstream_tool(tool: Tool) -> UpstreamTool:
    """Return a tool with its fingerprint."""
    return UpstreamTool(tool.name, fingerprint(tool), tool)


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
