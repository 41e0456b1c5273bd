"""Collects everything that a gateway would ask the policy about now, as one request of the contract."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress

from callability.gateway.config import Approvals, Config
from callability.gateway.inventory.agent import agent_message
from callability.gateway.inventory.inventory import Inventory
from callability.gateway.offline.patience import open_seconds
from callability.gateway.upstream import Upstream, UpstreamError, target_of
from callability.v1.callability_service_pb2 import CheckToolsRequest


async def snapshot(
    config: Config, approvals: Approvals, agent: str, report: Callable[[str, str], None], *, connecting: bool
) -> CheckToolsRequest:
    """Return the facts of every tool that an agent may see; an empty agent is a caller without a name.

    With `connecting` the enabled servers are connected at the same time, `report` is called with the outcome of each,
    and they are disconnected again. Without it, and for a server that cannot be connected, the tools are those that the
    files name.
    """
    upstreams = {
        name: Upstream(
            name,
            target_of(server),
            open_seconds=open_seconds(config, server),
            names_only=server.quarantined,
        )
        for name, server in config.servers.items()
    }
    inventory = Inventory(config, approvals, upstreams)
    if agent:
        inventory = inventory.scoped(config.agents[agent].servers)
    opened = [upstreams[name] for name, server in inventory.servers.items() if server.enabled and connecting]
    try:
        await _opened(opened, report)
        known = inventory.known_servers().values()
        sender = agent_message(agent, config.agents.get(agent))
        return CheckToolsRequest(agent=sender, servers=[each.facts.question() for each in known])
    finally:
        await asyncio.gather(*(upstream.close() for upstream in opened))


async def _opened(upstreams: Iterable[Upstream], report: Callable[[str, str], None]) -> None:
    async def open_one(upstream: Upstream) -> None:
        upstream.start()
        with suppress(UpstreamError):
            await upstream.opened()
        report(upstream.name, upstream.failure or "")

    await asyncio.gather(*map(open_one, upstreams))
