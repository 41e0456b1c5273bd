"""From the service's answers to what an agent reads, for any Python MCP proxy.

Everything here is a pure function of its arguments. A proxy asks the service with the stock stubs, and hands request
and response on; what comes back are plain JSON objects, such as an MCP `CallToolResult`.
"""

from callability.adapter.counts import tool_counts
from callability.adapter.discovery import (
    DEFAULT_LIMIT,
    INCLUDE_DISABLED_SCHEMA,
    INCLUDE_DISABLED_SENTENCE,
    MAX_LIMIT,
    InvalidArgument,
    ToolText,
    checked_limit,
    checked_query,
    discovery,
)
from callability.adapter.judgement import JudgedTool, Judgement, judge
from callability.adapter.phrases import NEUTRAL, Phrases
from callability.adapter.rejection import rejection, unknown_tool
from callability.adapter.result import error_result, tool_result

__all__ = [
    "DEFAULT_LIMIT",
    "INCLUDE_DISABLED_SCHEMA",
    "INCLUDE_DISABLED_SENTENCE",
    "MAX_LIMIT",
    "NEUTRAL",
    "InvalidArgument",
    "JudgedTool",
    "Judgement",
    "Phrases",
    "ToolText",
    "checked_limit",
    "checked_query",
    "discovery",
    "error_result",
    "judge",
    "rejection",
    "tool_counts",
    "tool_result",
    "unknown_tool",
]
