"""Tools that the gateway itself refuses because it could not call them, whatever the policy decides."""

from __future__ import annotations

from mcp_types import Tool

NO_TASKS = (
    "This tool can only be called as an MCP task, which the gateway does not support. Tell the user that this gateway"
    " cannot call it."
)


def refusal_of(tool: Tool) -> str:
    """Return why the gateway refuses a tool; empty if it does not."""
    return NO_TASKS if tool.execution is not None and tool.execution.task_support == "required" else ""
