"""Reads the tools of servers whole, as a person sees them before approving them.

How long a command waits for a server.

Collects everything that a gateway would ask the policy about now, as one request of the contract.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from callability.gateway.config import Approvals, CatalogEntry, Config, ServerConfig
from callability.gateway.inventory import Inventory, agent_message
from callability.gateway.tools.decisions import phrases
from callability.gateway.upstream import LoginStore, Upstream, UpstreamError, UpstreamTool, logged_in_target, target_of
from callability.v1.callability_service_pb2 import CheckToolsRequest

FIRST_START_SECONDS = 60.0


def open_seconds(config: Config, server: ServerConfig | CatalogEntry) -> float:
    """Return how many seconds a server has to connect.

    Without `open_seconds` in the config, it has more than under a gateway, which tries again: its first start may
    install it, as with `uvx`, and the person who waits can stop the command.
    """
    deadlines = config.deadlines.of(server)
    return deadlines.open_seconds if "open_seconds" in deadlines.model_fields_set else FIRST_START_SECONDS


def unstarted_upstreams(config: Config) -> dict[str, Upstream]:
    """Return an upstream for each server of a config; none is started."""
    return {
        name: Upstream(
            name,
            target_of(server, config.environment),
            open_seconds=open_seconds(config, server),
            names_only=server.quarantined,
        )
        for name, server in config.servers.items()
    }


async def snapshot(
    config: Config, approvals: Approvals, agent: str, report: Callable[[str, str], None], *, connecting: bool
) -> CheckToolsRequest:
    """Return the facts of every tool that an agent may see; an empty agent is a caller without a name.

    With `connecting` the enabled servers are connected at the same time, `report` is called with the outcome of each,
    and they are disconnected again. Without it, and for a server that cannot be connected, the tools are those that the
    files name.
    """
    upstreams = unstarted_upstreams(config)
    inventory = Inventory(config, approvals, upstreams)
    if agent:
        inventory = inventory.limit_to(config.agents[agent].servers)
    opened = [upstreams[name] for name, server in inventory.servers.items() if server.enabled and connecting]
    try:
        await _open(opened, report)
        known = inventory.known_servers().values()
        sender = agent_message(agent, config.agents.get(agent))
        return CheckToolsRequest(agent=sender, servers=[each.facts.question() for each in known])
    finally:
        await asyncio.gather(*(upstream.close() for upstream in opened))


async def _open(upstreams: Iterable[Upstream], report: Callable[[str, str], None]) -> None:
    async def open_one(upstream: Upstream) -> None:
        upstream.start()
        with suppress(UpstreamError):
            await upstream.wait_until_open()
        report(upstream.name, upstream.failure or "")

    await asyncio.gather(*map(open_one, upstreams))


@dataclass(frozen=True, slots=True)
class Inspected:
    """What a server lists, by name, or a sentence on why it could not be connected."""

    tools: Mapping[str, UpstreamTool]
    failure: str = ""
    said: tuple[str, ...] = ()
    """The last lines that a server that could not be connected wrote on its standard error."""
    left_out: tuple[str, ...] = ()
    """What is wrong with each tool that it lists and that cannot be used."""


async def inspect_all(
    config: Config, servers: Collection[str], report: Callable[[str, Inspected], None]
) -> dict[str, Inspected]:
    """Connect servers at the same time, list their tools and disconnect them; report each as soon as it is done.

    The texts of a server in quarantine are kept too, for the person who decides about it (A.4).
    """

    async def inspect(server: str) -> tuple[str, Inspected]:
        found = await _inspect(config, server)
        report(server, found)
        return server, found

    done = dict(await asyncio.gather(*map(inspect, servers)))
    return {server: done[server] for server in servers}


async def _inspect(config: Config, server: str) -> Inspected:
    reached = config.catalog.get(server) or config.servers[server]
    stored = LoginStore(config.path, in_keyring=config.tokens == "keyring").of(server)
    remedy = f": run {phrases(config.path, None).login(server)}"
    target = logged_in_target(reached, stored, remedy, config.environment)
    upstream = Upstream(server, target, open_seconds=open_seconds(config, reached))
    upstream.start()
    failure = ""
    try:
        await upstream.wait_until_open()
    except UpstreamError as error:
        failure = str(error)
    finally:
        # Only then its last lines have been read.
        await upstream.close()
    if failure:
        return Inspected({}, failure, upstream.said)
    tools: dict[str, UpstreamTool] = {}
    for tool in upstream.tools:
        # If a name is listed twice, the gateway takes the first.
        tools.setdefault(tool.name, tool)
    return Inspected(tools, left_out=upstream.left_out)
