"""Reads the tools of servers whole, as a person sees them before approving them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from callability.gateway.config import Config
from callability.gateway.offline.patience import open_seconds
from callability.gateway.upstream import Upstream, UpstreamError, UpstreamTool, target_of


@dataclass(frozen=True, slots=True)
class Inspected:
    """What a server lists, by name, or a sentence on why it could not be connected."""

    tools: Mapping[str, UpstreamTool]
    failure: str = ""
    said: tuple[str, ...] = ()
    """The last lines that a server that could not be connected wrote on its standard error."""
    left_out: tuple[str, ...] = ()
    """What is wrong with each tool that it lists and that cannot be used."""


async def inspected(
    config: Config, servers: Collection[str], report: Callable[[str, Inspected], None]
) -> dict[str, Inspected]:
    """Connect servers at the same time, list their tools and disconnect them; report each as soon as it is done.

    The texts of a server in quarantine are kept too, for the person who decides about it (A.4).
    """

    async def inspect(server: str) -> tuple[str, Inspected]:
        found = await _inspected(config, server)
        report(server, found)
        return server, found

    done = dict(await asyncio.gather(*map(inspect, servers)))
    return {server: done[server] for server in servers}


async def _inspected(config: Config, server: str) -> Inspected:
    entry = config.catalog.get(server)
    if entry is not None and entry.oauth is not None:
        return Inspected({}, f"`{server}` needs an authorization, which a gateway asks for and no command does")
    reached = entry or config.servers[server]
    upstream = Upstream(server, target_of(reached), open_seconds=open_seconds(config, reached))
    upstream.start()
    failure = ""
    try:
        await upstream.opened()
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
