"""A whole MCP proxy over stdio: `python proxy.py CONFIG POLICY_ADDRESS`, with a config such as `proxy.json`."""

import asyncio
import json
import sys
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import mcp
from google.protobuf.json_format import ParseDict
from mcp.server.mcpserver import MCPServer
from mcp_types import CallToolResult, Tool

from callability import adapter
from callability.adapter import ALL_SERVERS
from callability.client import Client, Inventory, PolicyUnavailable, tool_facts
from callability.v1.callability_service_pb2 import ClassifyLoadRequest
from callability.v1.facts_pb2 import Agent, Approval, Labels, ServerFacts, ToolFacts

PHRASES = {"edit_config": "edit proxy.json", "enable_tool": "set `disabled` of {server}:{tool} to false in proxy.json"}


class Proxy:
    """The servers of a config, and the policy that decides about their tools."""

    def __init__(self, config: Mapping[str, Any], policy: Client) -> None:
        self.config, self.policy, self.inventory = config["servers"], policy, Inventory()
        self.agent, self.not_loaded = Agent(name=config["agent"], labels=Labels()), list[str]()
        self.upstreams: dict[str, mcp.Client] = {}
        for server, given in self.config.items():
            self.inventory.put_server(server, ServerFacts(labels=Labels(values=given["labels"]), **given["state"]))
            known = [Tool(name=name, input_schema={}) for name in {*given["disabled_tools"], *given["approvals"]}]
            self.inventory.replace_tools(server, {tool.name: self.facts(server, tool) for tool in known})

    def facts(self, server: str, tool: Any) -> ToolFacts:
        """Return complete facts of a tool: every group is there, even if it is empty."""
        given = self.config[server]
        approval = ParseDict(given["approvals"].get(tool.name, {}), Approval())  # none: there is no record
        denied, labels = tool.name in given["disabled_tools"], given["tool_labels"].get(tool.name, {})
        return tool_facts(tool, config_denied=denied, approval=approval, labels=labels)

    async def connect(self, stack: AsyncExitStack) -> None:
        """Connect the servers that are enabled. One that fails is classified, and keeps no other from starting."""
        failed = {}
        for server, given in self.config.items():
            client = mcp.Client(mcp.StdioServerParameters(**given["start"]), read_timeout_seconds=30)
            try:
                if given["state"]["enabled"]:
                    self.upstreams[server] = await stack.enter_async_context(client)
            except (OSError, mcp.MCPError, ExceptionGroup) as error:
                with suppress(PolicyUnavailable):
                    failed[server] = await self.policy.classify_load(ClassifyLoadRequest(error_text=repr(error)))
        self.not_loaded = [*adapter.load_messages(failed, {}, phrases=PHRASES).values()]

    async def list_tools(self) -> None:
        """Read what the servers have now. A server that has gone keeps its tools."""
        for server, upstream in self.upstreams.items():
            with suppress(mcp.MCPError):
                pages = [await upstream.list_tools(cache_mode="refresh")]
                while cursor := pages[-1].next_cursor:
                    pages.append(await upstream.list_tools(cursor=cursor, cache_mode="refresh"))
                tools = [tool for page in pages for tool in page.tools]
                self.inventory.replace_listed(server, tools, partial(self.facts, server))

    async def retrieve_tools(self, query: str, limit: int = 15, *, include_disabled: bool = False) -> CallToolResult:
        """Find what can be called and, if it is wanted, what cannot be, and why."""
        try:
            adapter.checked_query(query)
            await self.list_tools()
            judged = await self.policy.judge(self.inventory, self.agent, visible=ALL_SERVERS)
            found, locked = (search(query, tools, judged.texts) for tools in (judged.callable, judged.searchable))
            options: dict[str, Any] = {"texts": judged.texts, "phrases": PHRASES, "not_loaded": self.not_loaded}
            options |= {"found": found, "found_locked": locked, "limit": limit, "include_disabled": include_disabled}
            result = adapter.tool_result(adapter.discovery(judged, query, **options))
        except adapter.InvalidArgument as error:
            result = adapter.invalid_argument(error)
        except PolicyUnavailable as error:
            result = adapter.unavailable(str(error))
        return CallToolResult.model_validate(result)

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> CallToolResult:
        """Call a tool of an upstream that the policy lets through, or say why it cannot be called."""
        decided = await self.policy.decide(self.inventory, self.agent, ALL_SERVERS, name, phrases=PHRASES)
        try:
            result = decided.rejection or await self.upstreams[decided.server].call_tool(decided.tool, arguments)
        except (KeyError, mcp.MCPError, RuntimeError):
            result = adapter.error_result(f"Not done: server `{decided.server}` gave no answer.")
        return CallToolResult.model_validate(result)


def search(query: str, tools: Iterable[adapter.JudgedTool], texts: Mapping[str, adapter.ToolText]) -> list[str]:
    """Return the tools whose name or description has a word of the query: most words first, then by name."""
    said = {tool.name: f"{tool.name} {texts.get(tool.name, adapter.ToolText()).description}".lower() for tool in tools}
    ranked = sorted((-sum(word in text for word in query.lower().split()), name) for name, text in said.items())
    return [name for hits, name in ranked if hits]


async def main(config: Mapping[str, Any], address: str) -> None:
    """Serve over stdio until the agent goes."""
    async with Client.remote([address]) as policy, AsyncExitStack() as stack:
        proxy, server = Proxy(config, policy), MCPServer("proxy")
        await proxy.connect(stack)
        await proxy.list_tools()
        server.add_tool(proxy.retrieve_tools, description=f"Find tools by purpose. {adapter.INCLUDE_DISABLED_SENTENCE}")
        server.add_tool(proxy.call_tool, description="Call a tool that `retrieve_tools` found, such as `git:git_log`.")
        await server.run_stdio_async()


if __name__ == "__main__":
    asyncio.run(main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), sys.argv[2]))
