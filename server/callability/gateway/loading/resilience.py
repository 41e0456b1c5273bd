"""Loads the tools of many servers at the same time, without a gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from callability.gateway.config import ServerConfig
from callability.gateway.loading.load_outcome import LoadOutcome, LoadResult
from callability.gateway.loading.loader import Loader
from callability.gateway.policy_client.load_policy import LoadPolicy, LoadStub
from callability.gateway.upstream import Target, Upstream, target_of


async def get_tools_with_resilience(
    servers: Mapping[str, ServerConfig | Target],
    stub: LoadPolicy | LoadStub,
    *,
    tries: int = 3,
    seconds: float = 30.0,
    open_seconds: float = 10.0,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> LoadResult:
    """Load servers concurrently, and return their outcomes. One that fails, hangs or crashes affects no other (L-5).

    Every connection is closed again, also if this is cancelled. A server that its config disables is not connected
    and has no outcome. Of a server in quarantine, only the names of the tools are kept.

    Args:
        servers: the servers by name, as a config has them, or as plain targets.
        stub: classifies each failure: a `callability.client.Client`, or the stub of `CallabilityService` on an aio
            channel.
        tries: the maximum number of tries for a server.
        seconds: the limit of a load in seconds, with all tries and the pauses between them.
        open_seconds: the limit of one try in seconds.
        sleep: what waits for a number of seconds between two tries.
    """
    loader = Loader(stub, tries=tries, seconds=seconds, sleep=sleep)
    async with asyncio.TaskGroup() as group:
        tasks = {
            name: group.create_task(_loaded(name, server, loader, open_seconds))
            for name, server in servers.items()
            if not isinstance(server, ServerConfig) or server.enabled
        }
    return LoadResult({name: task.result() for name, task in tasks.items()})


async def _loaded(name: str, server: ServerConfig | Target, loader: Loader, open_seconds: float) -> LoadOutcome:
    target, held = (target_of(server), server.quarantined) if isinstance(server, ServerConfig) else (server, False)
    upstream = Upstream(name, target, open_seconds=open_seconds, names_only=held)
    try:
        return await loader.load(upstream)
    finally:
        await upstream.close()
