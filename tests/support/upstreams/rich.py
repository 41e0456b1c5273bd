"""An MCP server on the SDK whose answers hold everything that the protocol has a place for, over stdio or HTTP."""

import asyncio
import sys
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams, Tool

ANNOTATIONS = {"audience": ["user"], "priority": 0.25, "lastModified": "2026-01-02T03:04:05Z"}
META = {"example.org/of": {"deep": [None, 1.5]}, "plain": "ü"}
ABOUT = {"annotations": ANNOTATIONS, "_meta": META}
LINK = {"uri": "file:///a%20b.txt", "name": "a b", "title": "A", "description": "d", "mimeType": "text/x", "size": 7}
DEEP: Any = None
for _ in range(60):
    DEEP = {"in": [DEEP]}
ODD = {
    "null": None,
    "big": 2**63,
    "bigger": -(10**40),
    "floats": [0.1, -0.0, 1e300, 1e-300, 3.0],
    "empty": [{}, [], "", {"": ""}],
    "deep": DEEP,
    "text": '\u0000\u2028🦓\\"</script>',
}
RESULTS: dict[str, dict[str, Any]] = {
    "every kind of content": {
        "content": [
            {"type": "text", "text": "\u0000 \u2028 🦓 \r\n", **ABOUT},
            {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png", **ABOUT},
            {"type": "audio", "data": "aGVsbG8=", "mimeType": "audio/wav", **ABOUT},
            {"type": "resource_link", **LINK, **ABOUT},
            {"type": "resource", "resource": {"uri": "x://1", "mimeType": "a/b", "text": "t", "_meta": META}, **ABOUT},
            {"type": "resource", "resource": {"uri": "x://2", "blob": "aGVsbG8="}},
            {"type": "text", "text": ""},
        ],
        "_meta": META,
    },
    "nothing": {"content": []},
    "odd JSON": {"content": [{"type": "text", "text": "odd"}], "structuredContent": ODD},
    "an error": {"content": [{"type": "text", "text": "no"}], "structuredContent": {"a": 1}, "isError": True},
    "a large answer": {"content": [{"type": "text", "text": "🦓" * 1_000_000}]},
    "too large an answer": {"content": [{"type": "text", "text": "x" * 17 * 1024 * 1024}]},
    **{name: {"content": [{"type": "text", "text": name}]} for name in ("a:b", "ça va? \"'/\\`*", "same", " x ")},
}
HINTS = {"title": "T", "readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
SCHEMA = {"type": "object", "properties": {"größe": {"type": ["number", "null"], "default": None}}, "$defs": {"x": {}}}


class Rich:
    """What the server remembers: that a call which waited was cancelled."""

    def __init__(self) -> None:
        self._waiting = asyncio.Event()
        self._cancelled = asyncio.Event()

    async def list_tools(self, _context: object, _params: PaginatedRequestParams | None) -> ListToolsResult:
        """List the tools."""
        names = (*RESULTS, "meta", "progress", "wait", "is waiting", "was cancelled", "say on stderr")
        about = {"description": "Counts sheep.", "inputSchema": SCHEMA, "annotations": HINTS}
        return ListToolsResult(tools=[Tool.model_validate({"name": name, **about}) for name in names])

    async def call_tool(self, context: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        """Give the result that the tool's name stands for."""
        given: dict[str, Any] = {"content": []}
        match params.name:
            case "meta":
                given["structuredContent"] = dict(params.meta or {})
            case "progress":
                await context.session.report_progress(1, 3, "one")
                await context.session.report_progress(2.5, 3, "two and a half")
                await context.session.report_progress(3, None, None)
            case "wait":
                await self._wait()
            case "is waiting":
                await self._waiting.wait()
            case "was cancelled":
                await self._cancelled.wait()
            case "say on stderr":
                sys.stderr.write("a word on standard error\n")
                sys.stderr.flush()
            case name:
                given = RESULTS[name]
        return CallToolResult.model_validate(given)

    async def _wait(self) -> None:
        self._cancelled.clear()
        self._waiting.set()
        try:
            await asyncio.Event().wait()
        finally:
            self._waiting.clear()
            self._cancelled.set()


def build() -> Server[Any]:
    """Return the server, without a transport."""
    rich = Rich()
    return Server("rich", on_list_tools=rich.list_tools, on_call_tool=rich.call_tool)


async def main() -> None:
    """Serve until stdin ends."""
    server = build()
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())
