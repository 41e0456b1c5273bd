"""How many tokens an agent pays until it can call the right tool, for the ten tasks of `bench/ten_tasks.yaml`.

`PYTHONPATH=tests python -m support.task_tokens [docs/agents.md]` prints the table, or writes it into the page. It needs
the servers for Node. A tool of a list counts by what a model gets of it: name, description and input schema.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp_types import CallToolResult, Tool
from ruamel.yaml import YAML

from callability.gateway.inventory import search_document
from callability.gateway.tool_index import ToolIndex
from callability.gateway.tools.dispatch import TOOLS
from support.checkout import ROOT
from support.gateways import connected, found_in, text_of, write_config
from support.real_servers import node_servers, pypi_servers
from support.token_counts import tokens

TASKS: Mapping[str, Any] = YAML(typ="safe").load(ROOT / "bench/ten_tasks.yaml")
BEGIN, END = "<!-- ten tasks: written by support.task_tokens -->\n", "<!-- end of the ten tasks -->\n"
LOADED = 5
"""Definitions that a client with a search of its own loads for a query."""
CLIENT_SEARCH = {
    "name": "search_tools",
    "description": "Search the deferred tools by keywords, and load the definitions of those that match best.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What the tool should do, in a few words."},
            "max_results": {"type": "integer", "default": LOADED, "description": "The maximum number of tools."},
        },
        "required": ["query"],
    },
}
"""The tool of such a client."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The tokens of one task, each way; `requests` are those to `retrieve_tools`."""

    query: str
    direct: int
    gateway: int
    answer: int
    requests: int
    client: int


def _written(value: object) -> int:
    return tokens(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _definition(tool: Tool) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description or "", "inputSchema": tool.input_schema}


def _definitions(listed: Iterable[Tool]) -> int:
    return sum(_written(_definition(tool)) for tool in listed)


async def _costs(directory: Path) -> list[Cost]:
    every = pypi_servers(directory) | node_servers(directory)
    servers = {name: every[name] for name in TASKS["servers"]}
    config = write_config(directory, servers)
    listed = await _listed(servers)
    async with connected("http", config) as client:
        return [await _cost(client, task, listed) for task in TASKS["tasks"]]


async def _listed(servers: Mapping[str, Mapping[str, Any]]) -> dict[str, Tool]:
    """Return every tool of the servers by its qualified name, as a client lists it that mounts them."""
    found: dict[str, Tool] = {}
    for server, entry in servers.items():
        async with Client(stdio_client(StdioServerParameters(**entry))) as client:
            found |= {f"{server}:{tool.name}": tool for tool in (await client.list_tools()).tools}
    return found


async def _cost(client: Client, task: Mapping[str, Any], listed: Mapping[str, Tool]) -> Cost:
    right, query = task["right"], task["query"]
    answer = await client.call_tool("retrieve_tools", {"query": query})
    paid, requests = _exchange({"query": query}, answer), 1
    tools = {tool["name"]: tool for tool in found_in(answer)["tools"]}
    if not any("inputSchema" in tools.get(name, {}) for name in right):
        # It came in short, or not at all: a second request, by its name, has the schema.
        again = {"query": next((name for name in right if name in tools), right[0]), "limit": 1}
        paid, requests = paid + _exchange(again, await client.call_tool("retrieve_tools", again)), 2
    loaded = _client_search(listed, query)
    searching = _written(CLIENT_SEARCH) + _written({"query": query}) + _definitions(listed[name] for name in loaded)
    if not set(right) & set(loaded):
        searching += _written({"query": right[0]}) + _definitions([listed[right[0]]])
    return Cost(
        query, _definitions(listed.values()), _definitions(TOOLS) + paid, tokens(text_of(answer)), requests, searching
    )


def _exchange(arguments: Mapping[str, Any], answer: CallToolResult) -> int:
    return _written(arguments) + tokens(text_of(answer))


def _client_search(listed: Mapping[str, Tool], query: str) -> Sequence[str]:
    """Return what a client finds that ranks as the gateway does, and loads the first definitions whole."""
    index = ToolIndex(search_document(name.partition(":")[0], tool) for name, tool in listed.items())
    return [hit.document.qualified_name for hit in index.search(query, LOADED)]


def table(costs: Sequence[Cost]) -> str:
    """Return the costs as a table in Markdown."""
    head = "| query | mounted directly | through the gateway | of it the answer | requests | client with a search |\n"
    rows = "".join(
        f"| {each.query} | {each.direct:,} | {each.gateway:,} | {each.answer:,} | {each.requests} | {each.client:,} |\n"
        for each in costs
    )
    return head + "| --- | --- | --- | --- | --- | --- |\n" + rows


def costs() -> list[Cost]:
    """Return what each of the ten tasks costs, before a real gateway and real servers."""
    with TemporaryDirectory() as directory:
        return asyncio.run(_costs(Path(directory)))


def main() -> None:
    """Print the table, or write it into a page."""
    made = table(costs())
    if not sys.argv[1:]:
        print(made, end="")
        return
    page = Path(sys.argv[1])
    text = page.read_text(encoding="utf-8")
    page.write_text(re.sub(f"{BEGIN}.*{END}", lambda _: BEGIN + made + END, text, flags=re.DOTALL), encoding="utf-8")


if __name__ == "__main__":
    main()
