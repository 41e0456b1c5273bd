"""The gateway's own tools, as every transport lists them."""

from __future__ import annotations

from typing import Any

from mcp_types import Tool, ToolAnnotations

from callability.adapter import DEFAULT_LIMIT, INCLUDE_DISABLED_SCHEMA, INCLUDE_DISABLED_SENTENCE, MAX_LIMIT


def _schema(required: list[str], **properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


TOOLS = (
    Tool(
        name="retrieve_tools",
        description=(
            "Find tools of all connected MCP servers by what they do. Call them with `call_tool`. "
            + INCLUDE_DISABLED_SENTENCE
        ),
        input_schema=_schema(
            ["query"],
            query={"type": "string", "minLength": 1, "description": "What the tool should do, in a few words."},
            limit={
                "type": "integer",
                "minimum": 1,
                "maximum": MAX_LIMIT,
                "default": DEFAULT_LIMIT,
                "description": "The maximum number of tools.",
            },
            include_disabled=dict(INCLUDE_DISABLED_SCHEMA),
        ),
        annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False),
    ),
    Tool(
        name="call_tool",
        description=(
            "Call a tool that `retrieve_tools` found. If it cannot be called, the answer gives the reason, who can"
            " change that, and whether a retry can help."
        ),
        input_schema=_schema(
            ["name"],
            name={"type": "string", "minLength": 1, "description": "The tool, as `server:tool`."},
            arguments={"type": "object", "description": "The tool's arguments, by its `inputSchema`."},
        ),
    ),
    Tool(
        name="upstream_servers",
        description=(
            "List the MCP servers behind this one, or get one: whether it is connected, and how many of its tools"
            " cannot be called and why."
        ),
        input_schema=_schema(
            [],
            operation={
                "type": "string",
                "enum": ["list", "get"],
                "default": "list",
                "description": "List all, or get one.",
            },
            name={"type": "string", "description": "The server, for `get`."},
        ),
        annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False),
    ),
)
"""`retrieve_tools`, `call_tool` and `upstream_servers`."""

_ID: dict[str, Any] = {"type": "string", "minLength": 1, "description": "The server's `id` from `search_servers`."}
CATALOG_TOOLS = (
    Tool(
        name="search_servers",
        description=(
            "Find MCP servers that can be connected, by their purpose, or list them all. `state`: whether it is"
            " connected. `authorization`: the user must authorize it. `unset`: variables that the operator must set"
            " first. Connects nothing."
        ),
        input_schema=_schema(
            [],
            query={"type": "string", "description": "The purpose of the server, in a few words. Default: all."},
            limit={
                "type": "integer",
                "minimum": 1,
                "maximum": MAX_LIMIT,
                "default": DEFAULT_LIMIT,
                "description": "The maximum number of servers.",
            },
        ),
        annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False),
    ),
    Tool(
        name="enable_server",
        description=(
            "Connect a server that `search_servers` found. The answer comes when it is connected or has failed. The"
            " user may be asked to authorize it. Then find its tools with `retrieve_tools`. If the user declined, retry"
            " only if the user asks."
        ),
        input_schema=_schema(["id"], id=_ID),
    ),
    Tool(
        name="disable_server",
        description="Disconnect a server that `enable_server` connected, or cancel the attempt.",
        input_schema=_schema(["id"], id=_ID),
    ),
)
"""`search_servers`, `enable_server` and `disable_server`, for a gateway with a catalog."""
