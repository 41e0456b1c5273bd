"""Gateways over upstreams without a process behind them, for laws about thousands of answers.

The upstreams here have what a gateway reads of one; the real ones are tested in `test_upstream.py` and behind every
real gateway.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, cast

from mcp_types import CallToolResult, TextContent, Tool

from callability.client.judgements import Judgements
from callability.contract.vocabulary import LoadStatus
from callability.gateway.config.approvals import NO_APPROVALS, load_approvals
from callability.gateway.config.config import load_config
from callability.gateway.inventory import GatewayInventory
from callability.gateway.loading import LoadOutcome, Loads
from callability.gateway.meaning import Indexes
from callability.gateway.observability import FileStatus, Metrics
from callability.gateway.tools.decisions import Decisions, phrases
from callability.gateway.tools.dispatch import Gateway
from callability.gateway.upstream.failure import NOT_SENT, Failure, UpstreamError, UpstreamRefusal
from callability.gateway.upstream.listing import upstream_tool
from callability.gateway.upstream.upstream import Upstream
from callability.v1.callability_service_pb2 import ClassifyLoadResponse
from callability.v1.outcome_pb2 import LoadStatus as WireStatus
from callability.v1.outcome_pb2 import LoadVerdict, LoadWords
from support.local_policy import local_policy

Tools = tuple[Mapping[str, Any], ...]
"""Tools as an upstream lists them, in MCP's JSON."""
WAYS = (False, True) if all(map(find_spec, ("tokenizers", "wordllama"))) else (False,)
"""Whether tools are found by meaning too: laws hold both ways, the second one if the extra `semantic` is installed."""
_GONE = Failure("exited with code 7")


@dataclass(frozen=True, slots=True)
class Shelf:
    """What is behind a server's entry: its tools, how its connection stands, and how it answers a call.

    `says` is the message of its refusal of every call; without one it carries them out. `load` is the outcome of its
    load if it is not connected.
    """

    tools: Tools
    state: Literal["connected", "failed", "closed"] = "connected"
    says: str = ""
    load: LoadStatus = LoadStatus.PERMANENT


class StandIn:
    """An upstream that is connected, or cannot be, and lists what its shelf has, or had when it was connected."""

    is_settled = True
    is_restless = False
    left_out: tuple[str, ...] = ()
    has_consent = False
    is_slow_to_list = False

    def __init__(self, name: str, shelf: Shelf, *, names_only: bool) -> None:
        tools = [
            upstream_tool(Tool.model_validate({"inputSchema": {"type": "object"}, **each})) for each in shelf.tools
        ]
        self.name = name
        self.state = shelf.state
        self.failure = str(UpstreamError(name, _GONE)) if shelf.state == "failed" else None
        self.tools = tuple(tool.without_text() if names_only else tool for tool in tools)
        self.called: list[str] = []
        self._says = shelf.says

    async def connect(self) -> None:
        """Fail where there is no connection.

        Raises:
            UpstreamError: there is none.
        """
        if self.state == "failed":
            raise UpstreamError(self.name, _GONE, NOT_SENT)

    async def wait_until_open(self) -> None:
        """Fail where there is no connection.

        Raises:
            UpstreamError: there is none.
        """
        if self.state != "connected":
            raise UpstreamError(self.name, _GONE)

    async def call(self, tool: str, arguments: Mapping[str, Any] | None, **_: object) -> CallToolResult:
        """Note the call, and say that it was carried out.

        Raises:
            UpstreamRefusal: the shelf says something else.
        """
        self.called.append(tool)
        if self._says:
            raise UpstreamRefusal(self.name, -32000, self._says)
        return CallToolResult(content=[TextContent(text=f"{self.name} did {tool} with {json.dumps(arguments)}")])


@dataclass(frozen=True, slots=True)
class StandInLoad:
    """The outcome of the load of a server that did not load."""

    outcome: LoadOutcome
    is_pending: bool = False

    async def wait_until_classified(self) -> None:
        """Its outcome is there from the start."""

    async def wait_until_known(self) -> None:
        """Wait for nothing."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A gateway for one agent or for everybody, and the upstreams behind it."""

    gateway: Gateway
    upstreams: Mapping[str, StandIn]

    async def answers(self, questions: Iterable[tuple[str, Mapping[str, Any]]]) -> list[str]:
        """Return the whole result of each call of the gateway's tools, as JSON."""
        return [(await self.gateway.answer(tool, arguments)).model_dump_json() for tool, arguments in questions]


def scene(
    directory: Path,
    servers: Mapping[str, Mapping[str, Any]],
    shelves: Mapping[str, Shelf],
    approvals: Mapping[str, Any] | None = None,
    *,
    visible: Iterable[str] | None = None,
    kept: tuple[Judgements, Indexes] | None = None,
    by_meaning: bool = False,
) -> Scene:
    """Return a gateway over the entries of servers and what is behind them, read from files as always.

    Args:
        directory: where the files are written; what words say of them names it.
        servers: for each server the keys of its entry, except its command.
        shelves: what is behind each server.
        approvals: what the approvals file says, where there is one.
        visible: the servers of the agent that asks; if it is left out, the agent sees every server.
        kept: what earlier scenes judged and indexed, as a running gateway keeps it; if it is left out, nothing.
        by_meaning: whether tools are found by meaning too, without `kept`.
    """
    config_path, approvals_path = directory / "mcp_config.json", directory / "approvals.json"
    agents = {} if visible is None else {"agent": {"servers": list(visible)}}
    entries = {name: {"command": "none", **entry} for name, entry in servers.items()}
    config_path.write_text(json.dumps({"mcpServers": entries, "agents": agents}))
    if approvals is not None:
        approvals_path.write_text(json.dumps(approvals))
    config = load_config(config_path)
    closed = {name: replace(shelf, state="closed") for name, shelf in shelves.items()}
    upstreams = {
        name: StandIn(name, (shelves if server.enabled else closed)[name], names_only=server.quarantined)
        for name, server in config.servers.items()
    }
    records = NO_APPROVALS if approvals is None else load_approvals(approvals_path)
    inventory = GatewayInventory(config, records, cast(Mapping[str, Upstream], upstreams))
    if visible is not None:
        inventory = inventory.limit_to(config.agents["agent"].servers)
    judgements, indexes = kept or (None, Indexes(by_meaning=by_meaning))
    decisions = Decisions(local_policy(), agent="" if visible is None else "agent", judgements=judgements)
    words = phrases(config_path, None if approvals is None else approvals_path)
    file_status = FileStatus(approvals_readable=records.readable)
    loads = Loads(
        {
            name: StandInLoad(LoadOutcome(name, shelf.load, (), _GONE.words, 1, _answer(shelf.load)))
            for name, shelf in shelves.items()
            if shelf.state == "failed" and config.servers[name].enabled
        }
    )
    gateway = Gateway(inventory, decisions, words, file_status, Metrics(), loads=loads, indexes=indexes)
    return Scene(gateway, upstreams)


def _answer(status: LoadStatus) -> ClassifyLoadResponse:
    number = WireStatus.Value(f"LOAD_STATUS_{status.name}")
    words = LoadWords(status=number, message=f"{status}: {{servers}}.")
    return ClassifyLoadResponse(verdict=LoadVerdict(status=number), words=words)
