"""Tools that the gateway itself refuses because they cannot be called through it, whatever the policy decides."""

from __future__ import annotations

from mcp_types import Tool

from callability.tool_name import MAX_BYTES, byte_length

NO_TASKS = (
    "This tool can only be called as an MCP task, which the gateway does not support. Tell the user that this gateway"
    " cannot call it."
)
NO_NAME = (
    f"The name of this tool has {{size:,}} bytes, and only tools with names of 1 to {MAX_BYTES} bytes can be called."
    " Tell the user that this gateway cannot call it."
)


def refusal_of(tool: Tool) -> str:
    """Return why the gateway refuses a tool; empty if it does not."""
    if not 0 < (size := byte_length(tool.name)) <= MAX_BYTES:
        return NO_NAME.format(size=size)
    return NO_TASKS if tool.execution is not None and tool.execution.task_support == "required" else ""
