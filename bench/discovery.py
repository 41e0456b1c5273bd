"""`retrieve_tools` of the gateway over 1,000 and 10,000 tools, against the bare search over the same tools."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice, product
from pathlib import Path
from statistics import quantiles
from time import perf_counter
from typing import cast

from mcp_types import Tool

from bench.connected import connected
from bench.report import Aim, Aimed, Row
from bench.rounds import Figures, Rounds, Series
from bench.workload import OBJECTS, VERBS, about_many
from callability.document import Node
from callability.gateway.config import ApprovalRecord, Approvals, Config, Deadlines, ServerConfig
from callability.gateway.inventory.inventory import Inventory
from callability.gateway.inventory.tool_index import SearchDocument, ToolIndex
from callability.gateway.loading import Loads
from callability.gateway.observability.metrics import Metrics
from callability.gateway.tools.decisions import Decisions
from callability.gateway.tools.discovery import Discovery
from callability.gateway.tools.remedies import phrases
from callability.gateway.upstream.tool import upstream_tool
from callability.policy.loading import Policy, load
from callability.policy.shipped import shipped_policy
from callability.service.in_process import InProcessStub
from callability.v1.callability_service_pb2 import ServerTools
from callability.v1.callability_service_pb2 import Tool as ContractTool
from callability.v1.facts_pb2 import APPROVAL_STATUS_PENDING

PART = "discovery"

_TOOLS = (1_000, 10_000)
_QUERIES = 50
"""Queries in a round."""
_SUBJECTS = {"search": "ToolIndex.search", "open": "retrieve_tools", "all": "retrieve_tools, include_disabled"}
_AIM, _AIMED_AT = Aim(10, Aimed.VALUE), (1_000, "open", "p50")


def rows(rounds: Rounds) -> list[Row]:
    """Measure discovery, the gateway with the policy in the same process, as it runs by default."""
    policy = load(shipped_policy())
    sizes = _TOOLS[:1] if rounds.quick else _TOOLS
    queries = rounds.repetitions(_QUERIES)
    with asyncio.Runner() as runner:
        subjects: dict[str, Callable[[], Figures]] = {}
        for tools in sizes:
            by_name = _subjects(policy, tools)
            subjects |= {f"{tools} {name}": partial(_timed, runner, ask, queries) for name, ask in by_name.items()}
        measured = rounds.interleaved(PART, subjects)
    return [row for tools in sizes for row in _rows(tools, measured)]


def _subjects(policy: Policy, tools: int) -> Mapping[str, Callable[[str], Awaitable[object]]]:
    servers = about_many(tools).servers
    listed = {server.name: tuple(_listed(tool) for tool in server.tools) for server in servers}
    index = ToolIndex(
        SearchDocument(
            tool.name, server, tool.title or "", tool.description or "", tuple(tool.input_schema["properties"])
        )
        for server, found in listed.items()
        for tool in found
    )
    upstreams = {name: connected(name, map(upstream_tool, found)) for name, found in listed.items()}
    inventory = Inventory(_config({server.name: server for server in servers}), _approvals(servers), upstreams)
    decisions = Decisions(InProcessStub(policy))
    discovery = Discovery(inventory, decisions, phrases(Path("mcp_config.json"), None), Loads(), Metrics())

    async def search(query: str) -> object:
        return index.search(query, 15)

    return {
        "search": search,
        "open": lambda query: discovery.retrieve_tools({"query": query}),
        "all": lambda query: discovery.retrieve_tools({"query": query, "include_disabled": True}),
    }


def _config(servers: Mapping[str, ServerTools]) -> Config:
    """Return a config that gives the facts that are asked about; what is unknown there is open here."""
    known = {
        name: ServerConfig(
            command="true",
            enabled=server.facts.enabled,
            quarantined=server.facts.quarantined,
            disabled_tools=tuple(tool.name for tool in server.tools if tool.facts.config_denied),
        )
        for name, server in servers.items()
    }
    return Config(Path("mcp_config.json"), known, None, {}, Deadlines(), (), cast(Node, None))


def _approvals(servers: Iterable[ServerTools]) -> Approvals:
    records = {
        server.name: {tool.name: _record(tool) for tool in server.tools if tool.facts.approval.HasField("record")}
        for server in servers
    }
    return Approvals(readable=True, records=records)


def _record(tool: ContractTool) -> ApprovalRecord:
    record = tool.facts.approval.record
    return ApprovalRecord(record.disabled, "pending" if record.status == APPROVAL_STATUS_PENDING else "approved")


def _listed(tool: ContractTool) -> Tool:
    """Return a tool with a description and a schema of usual length."""
    verb, noun, *rest = tool.name.split("_")
    parameters = (f"{noun}_id", "limit", "format", "dry_run")
    return Tool(
        name=tool.name,
        title=f"{verb.title()} {noun}",
        description=(
            f"{verb.title()} one {noun} or several, {' '.join(rest)}. Give the {noun}'s id or a filter; answers with"
            " a list, newest first, and a cursor where there is more. Needs the right to see the project."
        ),
        input_schema={"type": "object", "properties": {name: {"type": "string"} for name in parameters}},
    )


def _timed(runner: asyncio.Runner, ask: Callable[[str], Awaitable[object]], queries: int) -> Figures:
    async def ask_all() -> list[float]:
        taken = []
        for verb, noun in islice(product(VERBS, OBJECTS), queries):
            started = perf_counter()
            await ask(f"{verb} the {noun}")
            taken.append(1e3 * (perf_counter() - started))
        return taken

    percentiles = quantiles(runner.run(ask_all()), n=100, method="inclusive")
    return {"p50": percentiles[49], "p99": percentiles[98]}


def _rows(tools: int, measured: Mapping[str, Series]) -> Iterator[Row]:
    for figure in ("p50", "p99"):
        for subject, name in _SUBJECTS.items():
            against = None if subject == "search" else measured[f"{tools} search"][figure]
            what = f"{tools:,} tools, {name}, {figure}"
            aim = _AIM if (tools, subject, figure) == _AIMED_AT else None
            yield Row(PART, what, "ms", measured[f"{tools} {subject}"][figure], against=against, aim=aim)
