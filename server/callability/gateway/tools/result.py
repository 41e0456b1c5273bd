"""The answer of one of the gateway's own tools."""

from __future__ import annotations

from typing import Any

Result = dict[str, Any]
"""An MCP `CallToolResult` as JSON."""
