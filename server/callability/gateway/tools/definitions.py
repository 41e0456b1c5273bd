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
            "Finds tools of all connected MCP servers by what they do; call what it finds by `call_tool`. "
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
                "description": "How many tools at the most.",
            },
            include_disabled=dict(INCLUDE_DISABLED_SCHEMA),
        ),
        annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False),
    ),
    Tool(
        name="call_tool",
        description=(
            "Calls a tool that `retrieve_tools` found. A tool that cannot be called answers with the reason, who can"
            " change that, and whether trying again can help."
        ),
        input_schema=_schema(
            ["name"],
            name={"type": "string", "minLength": 1, "description": "The tool, as `server:tool`."},
            arguments={"type": "object", "description": "The tool's own arguments, as its `inputSchema` says."},
        ),
    ),
    Tool(
        name="upstream_servers",
        description=(
            "Lists the MCP servers behind this one, or gets one of them: whether it is connected, and, where some of"
            " its tools cannot be called, how many and why."
        ),
        input_schema=_schema(
            [],
            operation={"type": "string", "enum": ["list", "get"], "default": "list", "description": "What to do."},
            name={"type": "string", "description": "The server, for `get`."},
        ),
        annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False),
    ),
)
"""`retrieve_tools`, `call_tool` and `upstream_servers`."""

_ID: dict[str, Any] = {"type": "string", "minLength": 1, "description": "The server, as `search_servers` names it."}
CATALOG_TOOLS = (
    Tool(
        name="search_servers",
        description=(
            "Finds MCP servers that are not connected but can be: by what they are for, or all of them. `state` says"
            " whether one is connected, `authorization` that its user has to authorize it, and `unset` which variables"
            " the operator has to set before. Connects nothing."
        ),
        input_schema=_schema(
            [],
            query={"type": "string", "description": "What the server is for, in a few words. Left out: all of them."},
            limit={
                "type": "integer",
                "minimum": 1,
                "maximum": MAX_LIMIT,
                "default": DEFAULT_LIMIT,
                "description": "How many servers at the most.",
            },
        ),
        annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False),
    ),
    Tool(
        name="enable_server",
        description=(
            "Connects a server that `search_servers` found, and answers when it is connected or has failed. The user"
            " may be asked to authorize it. Its tools are then found by `retrieve_tools`. After the user has declined,"
            " call it again only on the user's word."
        ),
        input_schema=_schema(["id"], id=_ID),
    ),
    Tool(
        name="disable_server",
        description="Disconnects a server that `enable_server` connected, or ends the attempt to connect it.",
        input_schema=_schema(["id"], id=_ID),
    ),
)
"""`search_servers`, `enable_server` and `disable_server`, for a gateway with a catalog."""
