"""`retrieve_tools` of the gateway over 1,000 and 10,000 tools, against the bare search over the same tools."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice, product
from pathlib import Path
from statistics import quantiles
from time import perf_counter
from typing import cast

from mcp_types import Tool

from bench.connected import connected
from bench.local_policy import local_policy
from bench.report import Aim, Aimed, Row
from bench.rounds import Figures, Rounds, Series
from bench.workload import OBJECTS, VERBS, about_many
from callability.client.judgements import Judgements
from callability.files.document import Node
from callability.gateway.config.approvals import ApprovalRecord, Approvals
from callability.gateway.config.config import Config
from callability.gateway.config.model import Deadlines, ServerConfig
from callability.gateway.inventory import GatewayInventory
from callability.gateway.loading import Loads
from callability.gateway.meaning import Indexes
from callability.gateway.observability import FileStatus
from callability.gateway.policy_client import PolicyClient
from callability.gateway.tool_index import SearchDocument, ToolIndex
from callability.gateway.tools.decisions import AgentView, Decisions, phrases
from callability.gateway.tools.discovery import Discovery
from callability.gateway.upstream.listing import upstream_tool
from callability.gateway.upstream.upstream import Upstream
from callability.v1.callability_service_pb2 import ServerTools
from callability.v1.callability_service_pb2 import Tool as ContractTool
from callability.v1.facts_pb2 import APPROVAL_STATUS_PENDING

PART = "discovery"

_TOOLS = (1_000, 10_000)
_QUERIES = 50
"""Queries in a round."""
_SUBJECTS = {
    "search": "ToolIndex.search",
    "open": "retrieve_tools",
    "all": "retrieve_tools, include_disabled",
    "approval": "retrieve_tools, the first after one approval",
}
_AIMS = {
    (1_000, "open", "p50"): Aim(5, Aimed.VALUE),
    (10_000, "open", "p50"): Aim(15, Aimed.VALUE),
    (10_000, "approval", "p50"): Aim(60, Aimed.VALUE),
}
_APPROVALS = 8
"""Approvals in a round, each followed by one query."""


def rows(rounds: Rounds) -> list[Row]:
    """Measure discovery, the gateway with the policy in the same process, as it runs by default."""
    policy = local_policy()
    sizes = _TOOLS[:1] if rounds.quick else _TOOLS
    queries = rounds.repetitions(_QUERIES)
    with asyncio.Runner() as runner:
        subjects: dict[str, Callable[[], Figures]] = {}
        for tools in sizes:
            by_name = _subjects(policy, tools)
            numbers = {"approval": rounds.repetitions(_APPROVALS)}
            subjects |= {
                f"{tools} {name}": partial(_timed, runner, ask, numbers.get(name, queries))
                for name, ask in by_name.items()
            }
        measured = rounds.interleaved(PART, subjects)
    return [row for tools in sizes for row in _rows(tools, measured)]


def _subjects(policy: PolicyClient, tools: int) -> Mapping[str, Callable[[str], Awaitable[object]] | _Changing]:
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
    config = _config({server.name: server for server in servers})
    gateway = _Gateway(policy, config, _approvals(servers), upstreams)

    async def search(query: str) -> object:
        return index.search(query, 15)

    async def after_an_approval(query: str) -> object:
        return await gateway.discovery.retrieve_tools({"query": query})

    return {
        "search": search,
        "open": lambda query: gateway.discovery.retrieve_tools({"query": query}),
        "all": lambda query: gateway.discovery.retrieve_tools({"query": query, "include_disabled": True}),
        "approval": _Changing(gateway.approve_one, after_an_approval),
    }


@dataclass(frozen=True, slots=True)
class _Changing:
    """A query, and what has to be done before it and does not belong to its time."""

    before: Callable[[], Awaitable[None]]
    ask: Callable[[str], Awaitable[object]]


class _Gateway:
    """The discovery of a gateway whose approvals change, as its runtime replaces it."""

    def __init__(
        self, policy: PolicyClient, config: Config, approvals: Approvals, upstreams: Mapping[str, Upstream]
    ) -> None:
        self._config, self._upstreams = config, upstreams
        self._policy = policy
        self._judgements, self._indexes = Judgements(), Indexes()
        self._first_records = approvals.records
        self._records = dict(self._first_records)
        self._pending = _pending(self._records)
        self._inventory: GatewayInventory | None = None
        self.discovery = self._replaced()

    async def approve_one(self) -> None:
        """Approve a tool that is pending, and replace the discovery as an edit of the file does."""
        if not self._pending:
            await self._undo_approvals()
        server, tool = self._pending.pop()
        records = self._records[server]
        self._records[server] = {**records, tool: ApprovalRecord(disabled=False, status="approved")}
        self.discovery = self._replaced()

    async def _undo_approvals(self) -> None:
        """Make the tools pending again, and query once, so that the next query does not build the index whole."""
        self._records = dict(self._first_records)
        self._pending = _pending(self._records)
        self.discovery = self._replaced()
        await self.discovery.retrieve_tools({"query": "list"})

    def _replaced(self) -> Discovery:
        approvals = Approvals(readable=True, records=dict(self._records))
        self._inventory = GatewayInventory(self._config, approvals, self._upstreams, self._inventory)
        decisions = Decisions(self._policy, judgements=self._judgements)
        commands = phrases(Path("mcp_config.json"), None)
        return Discovery(AgentView("", self._inventory, decisions, commands, Loads()), FileStatus(), self._indexes)


def _pending(records: Mapping[str, Mapping[str, ApprovalRecord]]) -> list[tuple[str, str]]:
    return [
        (server, tool)
        for server, known in records.items()
        for tool, record in known.items()
        if record.status == "pending" and not record.disabled
    ]


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


def _timed(runner: asyncio.Runner, ask: Callable[[str], Awaitable[object]] | _Changing, queries: int) -> Figures:
    before, ask = (ask.before, ask.ask) if isinstance(ask, _Changing) else (_nothing, ask)

    async def ask_all() -> list[float]:
        taken = []
        for verb, noun in islice(product(VERBS, OBJECTS), queries):
            await before()
            started = perf_counter()
            await ask(f"{verb} the {noun}")
            taken.append(1e3 * (perf_counter() - started))
        return taken

    percentiles = quantiles(runner.run(ask_all()), n=100, method="inclusive")
    return {"p50": percentiles[49], "p99": percentiles[98]}


async def _nothing() -> None:
    """Change nothing."""


def _rows(tools: int, measured: Mapping[str, Series]) -> Iterator[Row]:
    for figure in ("p50", "p99"):
        for subject, name in _SUBJECTS.items():
            against = None if subject == "search" else measured[f"{tools} search"][figure]
            what = f"{tools:,} tools, {name}, {figure}"
            aim = _AIMS.get((tools, subject, figure))
            yield Row(PART, what, "ms", measured[f"{tools} {subject}"][figure], against=against, aim=aim)
