"""A FastMCP proxy that shows and calls what the policy allows: `python fastmcp_proxy.py CONFIG POLICY_ADDRESS`.

FastMCP puts a server's name and `_` in front of its tools, such as `time_get_current_time`. `Callability` is a
middleware for any FastMCP server with such names; the config is that of `proxy.py`.
"""

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fastmcp import FastMCP
from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools import Tool, ToolResult
from google.protobuf.json_format import ParseDict
from mcp_types import CallToolRequestParams, ListToolsRequest, TextContent

from callability import adapter
from callability.adapter import ALL_SERVERS
from callability.client import Client, Inventory, PolicyUnavailable, tool_facts
from callability.v1.facts_pb2 import Agent, Approval, Labels, ServerFacts, ToolFacts

SEPARATOR = "_"
PHRASES = {"edit_config": "edit proxy.json", "enable_tool": "set `disabled` of {server}_{tool} to false in proxy.json"}


class Callability(Middleware):
    """Lists only what can be called, and rejects calls of anything else of the servers of a config."""

    def __init__(self, server: FastMCP[Any], config: Mapping[str, Any], policy: Client) -> None:
        self.server, self.config, self.policy = server, config["servers"], policy
        self.agent = Agent(name=config["agent"], labels=Labels())
        self.inventory = Inventory(separator=SEPARATOR)
        for name, given in self.config.items():
            if any(other.startswith(f"{name}{SEPARATOR}") for other in (*self.config, "retrieve_tools")):
                raise ValueError(f"a tool of `{name}` could have the name of another tool")
            self.inventory.put_server(name, ServerFacts(labels=Labels(values=given["labels"]), **given["state"]))
            known = [Tool(name=tool, parameters={}) for tool in {*given["disabled_tools"], *given["approvals"]}]
            self.inventory.replace_tools(name, {tool.name: self.facts(name, tool) for tool in known})
        server.tool(self.retrieve_tools, description=f"Find tools by purpose. {adapter.INCLUDE_DISABLED_SENTENCE}")

    def facts(self, server: str, tool: Any) -> ToolFacts:
        """Return complete facts of a tool: every group is there, even if it is empty."""
        given = self.config[server]
        approval = ParseDict(given["approvals"].get(tool.name, {}), Approval())  # none: there is no record
        denied, labels = tool.name in given["disabled_tools"], given["tool_labels"].get(tool.name, {})
        return tool_facts(tool, config_denied=denied, approval=approval, labels=labels)

    def parted(self, name: str) -> tuple[str, str]:
        """Return server and tool of a qualified name; without a server if it is a tool of the proxy's own."""
        server = next((each for each in self.config if name.startswith(f"{each}{SEPARATOR}")), "")
        return server, name.removeprefix(f"{server}{SEPARATOR}") if server else name

    async def judge(self, listed: Sequence[Tool] | None = None) -> adapter.Judgement:
        """Decide what is listed, by default what servers have now; what has not changed is not decided again."""
        every = await self.server.list_tools(run_middleware=False) if listed is None else listed
        for server in (name for name, given in self.config.items() if given["state"]["enabled"]):
            parted = [(tool, *self.parted(tool.name)) for tool in every]
            mine = [tool.model_copy(update={"name": name}) for tool, its_server, name in parted if its_server == server]
            self.inventory.replace_listed(server, mine, partial(self.facts, server))
        return await self.policy.judge(self.inventory, self.agent, visible=ALL_SERVERS)

    async def on_list_tools(
        self, context: MiddlewareContext[ListToolsRequest], call_next: CallNext[ListToolsRequest, Sequence[Tool]]
    ) -> Sequence[Tool]:
        """List the tools that can be called, and the proxy's own; if the policy is out of reach, only the latter."""
        listed: dict[str, Tool] = {}
        for tool in await call_next(context):
            listed.setdefault(tool.name, tool)  # as the inventory does: what is shown is what was judged
        try:
            names = {tool.name for tool in (await self.judge([*listed.values()])).callable}
        except PolicyUnavailable:
            names = set()
        return [tool for tool in listed.values() if tool.name in names or not self.parted(tool.name)[0]]

    async def on_call_tool(
        self,
        context: MiddlewareContext[CallToolRequestParams],
        call_next: CallNext[CallToolRequestParams, ToolResult],
    ) -> ToolResult:
        """Call a tool that the policy lets through, or say why it cannot be called."""
        name = context.message.name
        try:
            if self.parted(name)[0]:
                await self.judge()  # so that the inventory has what the servers list now
                decided = await self.policy.decide(self.inventory, self.agent, ALL_SERVERS, name, phrases=PHRASES)
                if decided.rejection:
                    return _result(decided.rejection)
        except PolicyUnavailable as error:
            return _result(adapter.unavailable(str(error)))
        return await call_next(context)

    async def retrieve_tools(self, query: str, limit: int = 15, *, include_disabled: bool = False) -> ToolResult:
        """Find what can be called and, if it is wanted, what cannot be, and why."""
        try:
            adapter.checked_query(query)
            judgement = await self.judge()
            texts = judgement.texts
            words = query.lower().split()
            said = {name: f"{name} {text.description}".lower() for name, text in texts.items()}
            found = sorted(said, key=lambda name: (-sum(word in said[name] for word in words), name))
            hits = [name for name in found if any(word in said[name] for word in words)]
            options: dict[str, Any] = {"texts": texts, "phrases": PHRASES, "found": hits, "found_locked": hits}
            options |= {"limit": limit, "include_disabled": include_disabled}
            return _result(adapter.tool_result(adapter.discovery(judgement, query, **options)))
        except adapter.InvalidArgument as error:
            return _result(adapter.invalid_argument(error))
        except PolicyUnavailable as error:
            return _result(adapter.unavailable(str(error)))


def _result(result: Mapping[str, Any]) -> ToolResult:
    text = TextContent(text=result["content"][0]["text"])
    return ToolResult([text], result.get("structuredContent"), is_error=result["isError"])


async def main(config: Mapping[str, Any], address: str) -> None:
    """Serve over stdio until the agent goes."""
    server: FastMCP[Any] = FastMCP("proxy")
    for name, given in config["servers"].items():
        if given["state"]["enabled"]:
            server.mount(create_proxy(StdioTransport(**{"args": [], **given["start"]})), namespace=name)
    async with Client.remote([address]) as policy:
        server.add_middleware(Callability(server, config, policy))
        await server.run_stdio_async(show_banner=False)


if __name__ == "__main__":
    asyncio.run(main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), sys.argv[2]))
