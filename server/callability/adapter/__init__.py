"""Turning the service's verdicts into what an agent reads, for any Python MCP proxy.

Everything here is a pure function of its arguments. A proxy calls the service with the generated stubs, and passes
request and response to these functions, which return plain JSON objects, such as an MCP `CallToolResult`.
"""

from callability.adapter.discovery import (
    DEFAULT_LIMIT,
    INCLUDE_DISABLED_SCHEMA,
    INCLUDE_DISABLED_SENTENCE,
    MAX_LIMIT,
    Asked,
    DiscoveryArguments,
    InvalidArgument,
    checked_arguments,
    checked_limit,
    checked_query,
    discovery,
    invalid_argument,
)
from callability.adapter.inputs import (
    DeclaredFact,
    DeclaredInputs,
    DeclaredLabels,
    InputFault,
    NotPublished,
    UnreadInput,
    unread_inputs,
)
from callability.adapter.json_text import JsonNumber, error_result, read_json, result_json, tool_result
from callability.adapter.judgement import (
    ALL_SERVERS,
    SEPARATOR,
    AllServers,
    JudgedTool,
    Judgement,
    Scope,
    ToolText,
    check_tool_request,
    judge,
    tool_counts,
)
from callability.adapter.outcomes import enable_result, enable_status, load_messages, load_status
from callability.adapter.phrases import NEUTRAL, Phrases
from callability.adapter.rejection import UnknownTool, rejection, unavailable, unknown_tool

__all__ = [
    "ALL_SERVERS",
    "DEFAULT_LIMIT",
    "INCLUDE_DISABLED_SCHEMA",
    "INCLUDE_DISABLED_SENTENCE",
    "MAX_LIMIT",
    "NEUTRAL",
    "SEPARATOR",
    "AllServers",
    "Asked",
    "DeclaredFact",
    "DeclaredInputs",
    "DeclaredLabels",
    "DiscoveryArguments",
    "InputFault",
    "InvalidArgument",
    "JsonNumber",
    "JudgedTool",
    "Judgement",
    "NotPublished",
    "Phrases",
    "Scope",
    "ToolText",
    "UnknownTool",
    "UnreadInput",
    "check_tool_request",
    "checked_arguments",
    "checked_limit",
    "checked_query",
    "discovery",
    "enable_result",
    "enable_status",
    "error_result",
    "invalid_argument",
    "judge",
    "load_messages",
    "load_status",
    "read_json",
    "rejection",
    "result_json",
    "tool_counts",
    "tool_result",
    "unavailable",
    "unknown_tool",
    "unread_inputs",
]
