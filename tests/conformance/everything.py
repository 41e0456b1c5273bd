"""The MCP server that the conformance suites expect, as far as its tools go, over stdio: the upstream of the front."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from mcp import ServerSession
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import (
    AudioContent,
    CallToolRequestParams,
    CallToolResult,
    ContentBlock,
    ElicitRequest,
    ElicitRequestFormParams,
    EmbeddedResource,
    ImageContent,
    InputRequiredResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    TextResourceContents,
    Tool,
)

Answer = CallToolResult | InputRequiredResult
PAUSE = 0.05
"""Seconds between two notifications, as the suites ask for."""
RED_PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
SHORT_SILENCE = "UklGRigAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQQAAACAgICA"
SCHEMA_FILE = Path(__file__).parent / "schema_2020_12.json"

INPUT_TOOLS = (
    "test_sampling",
    "test_elicitation",
    "test_elicitation_sep1034_defaults",
    "test_elicitation_sep1330_enums",
    "test_streaming_elicitation",
    "test_input_required_result_elicitation",
    "test_input_required_result_sampling",
    "test_input_required_result_list_roots",
    "test_input_required_result_request_state",
    "test_input_required_result_multiple_inputs",
    "test_input_required_result_multi_round",
    "test_input_required_result_tampered_state",
    "test_input_required_result_capabilities",
)
SAME_ALWAYS: Mapping[str, tuple[ContentBlock, ...]] = {
    "test_simple_text": (TextContent(text="This is a simple text response for testing."),),
    "test_image_content": (ImageContent(data=RED_PIXEL, mime_type="image/png"),),
    "test_audio_content": (AudioContent(data=SHORT_SILENCE, mime_type="audio/wav"),),
    "test_embedded_resource": (
        EmbeddedResource(
            resource=TextResourceContents(
                uri="test://embedded-resource", mime_type="text/plain", text="This is an embedded resource content."
            )
        ),
    ),
    "test_multiple_content_types": (
        TextContent(text="Multiple content types test:"),
        ImageContent(data=RED_PIXEL, mime_type="image/png"),
        EmbeddedResource(
            resource=TextResourceContents(
                uri="test://mixed-content-resource", mime_type="application/json", text='{"test":"data","value":123}'
            )
        ),
    ),
    "json_schema_2020_12_tool": (TextContent(text="ok"),),
}


async def fail(_: ServerSession) -> Answer:
    """Answer that the tool failed."""
    text = TextContent(text="This tool intentionally returns an error for testing")
    return CallToolResult(content=[text], is_error=True)


async def report_progress(session: ServerSession) -> Answer:
    """Report how far the call is, three times."""
    for progress in (0, 50, 100):
        await session.report_progress(progress, 100)
        await asyncio.sleep(PAUSE)
    return CallToolResult(content=[TextContent(text="done")])


async def ask(_: ServerSession) -> Answer:
    """Ask the user something; whatever a suite wants to be asked, the gateway passes no question on."""
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    elicitation = ElicitRequest(params=ElicitRequestFormParams(message="What is your name?", requested_schema=schema))
    return InputRequiredResult(input_requests={"user_name": elicitation})


async def log(session: ServerSession) -> Answer:
    """Log three messages while the call is under way."""
    for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await session.send_log_message("info", text)
        await asyncio.sleep(PAUSE)
    return CallToolResult(content=[TextContent(text="done")])


ACTIONS: Mapping[str, Callable[[ServerSession], Awaitable[Answer]]] = {
    "test_error_handling": fail,
    "test_tool_with_progress": report_progress,
    "test_tool_with_logging": log,
    "test_logging_tool": log,
    **dict.fromkeys(INPUT_TOOLS, ask),
}


async def list_tools(_: object, __: PaginatedRequestParams | None) -> ListToolsResult:
    """List a tool for each thing that the suites call, one of them with a schema that is hard to preserve."""
    schemas = {"json_schema_2020_12_tool": json.loads(SCHEMA_FILE.read_text())}
    return ListToolsResult(
        tools=[
            Tool(name=name, description=f"Fixture {name}.", input_schema=schemas.get(name, {"type": "object"}))
            for name in (*SAME_ALWAYS, *ACTIONS)
        ]
    )


async def call_tool(context: ServerRequestContext[Any], params: CallToolRequestParams) -> Answer:
    """Answer with what always is the same, or do what the tool is about."""
    if params.name in SAME_ALWAYS:
        return CallToolResult(content=list(SAME_ALWAYS[params.name]))
    return await ACTIONS[params.name](context.session)


async def main() -> None:
    """Serve until standard input ends."""
    server = Server("everything", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())
