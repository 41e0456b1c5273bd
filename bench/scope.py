"""Whether the time of an answer shows an agent that there is a server out of its scope."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from statistics import quantiles
from time import perf_counter
from typing import Any, cast

from mcp_types import Tool

from bench.connected import connected
from bench.local_policy import local_policy
from bench.report import Row
from bench.rounds import Figures, Rounds
from callability.files.document import Node
from callability.gateway.config.approvals import NO_APPROVALS
from callability.gateway.config.config import Config
from callability.gateway.config.model import AgentConfig, Deadlines, ServerConfig
from callability.gateway.inventory import GatewayInventory
from callability.gateway.observability import FileStatus, Metrics
from callability.gateway.tools.decisions import Decisions, phrases
from callability.gateway.tools.dispatch import Gateway
from callability.gateway.upstream.listing import UpstreamTool, upstream_tool

PART = "scope"

_IN_SCOPE, _OUT_OF_SCOPE = 10, 10
_TOOLS_OF_A_SERVER = 50
_QUESTIONS = 60
_CALLS: Mapping[str, tuple[str, Callable[[str], dict[str, Any]]]] = {
    "call_tool": ("call_tool", lambda server: {"name": f"{server}:read_{server}_7"}),
    "upstream_servers": ("upstream_servers", lambda server: {"operation": "get", "name": server}),
    "retrieve_tools": ("retrieve_tools", lambda server: {"query": server, "include_disabled": True}),
}
_OUT, _NOWHERE = "out of scope", "does not exist"


def rows(rounds: Rounds) -> list[Row]:
    """Measure the same questions about servers that are out of scope and about servers that do not exist."""
    gateway = _gateway()
    questions = rounds.repetitions(_QUESTIONS)
    with asyncio.Runner() as runner:
        measured = rounds.interleaved(
            PART, {name: partial(_timed, runner, gateway, questions, *call) for name, call in _CALLS.items()}
        )
    found = []
    for name in _CALLS:
        for figure in ("p50", "p90"):
            there, nowhere = (measured[name][f"{which} {figure}"] for which in (_OUT, _NOWHERE))
            found.append(Row(PART, f"{name}, a server that {_NOWHERE}, {figure}", "µs", nowhere))
            found.append(Row(PART, f"{name}, a server that is {_OUT}, {figure}", "µs", there, against=nowhere))
    return found


def _gateway() -> Gateway:
    """Return the gateway of an agent that sees half of the servers; what exists and what does not is named alike."""
    names = [_name("seen", number) for number in range(_IN_SCOPE)]
    hidden = [_name("real", number) for number in range(_OUT_OF_SCOPE)]
    servers = {name: ServerConfig(command="true") for name in (*names, *hidden)}
    agents = {"agent": AgentConfig(servers=tuple(names))}
    config = Config(Path("mcp_config.json"), servers, None, agents, Deadlines(), (), cast(Node, None))
    upstreams = {name: connected(name, _tools(name)) for name in servers}
    inventory = GatewayInventory(config, NO_APPROVALS, upstreams).limit_to(names)
    decisions = Decisions(local_policy(), agent="agent")
    return Gateway(inventory, decisions, phrases(config.path, None), FileStatus(), Metrics())


def _name(word: str, number: int) -> str:
    return f"{word}{number:03}"


def _tools(server: str) -> tuple[UpstreamTool, ...]:
    schema = {"type": "object"}
    return tuple(
        upstream_tool(Tool(name=f"read_{server}_{number}", description=f"Reads from {server}.", input_schema=schema))
        for number in range(_TOOLS_OF_A_SERVER)
    )


def _timed(
    runner: asyncio.Runner,
    gateway: Gateway,
    questions: int,
    tool: str,
    arguments: Callable[[str], dict[str, Any]],
) -> Figures:
    """Ask about the two in turn: what disturbs one disturbs the other."""

    async def ask_all() -> dict[str, list[float]]:
        taken: dict[str, list[float]] = {_OUT: [], _NOWHERE: []}
        for number in range(questions):
            words = ((_OUT, "real"), (_NOWHERE, "none"))
            for which, word in words if number % 2 else reversed(words):
                question = arguments(_name(word, number % _OUT_OF_SCOPE))
                started = perf_counter()
                await gateway.answer(tool, question)
                taken[which].append(1e6 * (perf_counter() - started))
        return taken

    figures: dict[str, float] = {}
    for which, values in runner.run(ask_all()).items():
        percentiles = quantiles(values, n=100, method="inclusive")
        figures |= {f"{which} p50": percentiles[49], f"{which} p90": percentiles[89]}
    return figures
