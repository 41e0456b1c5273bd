"""A gateway of files that serves nobody: commands ask it what a running one would answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from callability.gateway.config import Approvals, Config
from callability.gateway.inventory import Inventory
from callability.gateway.loading import Loader, LoadOutcome, Loads
from callability.gateway.observability import FileStatus, Metrics
from callability.gateway.offline import unstarted_upstreams
from callability.gateway.policy_client import PolicyClient
from callability.gateway.tools.decisions import Decisions, phrases
from callability.gateway.tools.dispatch import Gateway

LOAD_SECONDS = 60.0
"""How long a server is tried; a command waits longer than a gateway, which tries again."""


@asynccontextmanager
async def unserved_gateway(
    config: Config,
    approvals: Approvals,
    given: Path | None,
    policy: PolicyClient,
    agent: str,
    connecting: Collection[str],
    report: Callable[[str, str], None],
) -> AsyncIterator[Gateway]:
    """Yield the gateway of an agent over files; `given` is the approvals file that the call names.

    Those of the servers `connecting` that are switched on, and that the agent may see, are connected and listed, and
    disconnected at the end; `report` is called with the outcome of each. Nothing is written.
    """
    upstreams = unstarted_upstreams(config)
    inventory = Inventory(config, approvals, upstreams)
    if agent:
        inventory = inventory.limit_to(config.agents[agent].servers)
    opened = [upstreams[name] for name, it in inventory.servers.items() if it.enabled and name in connecting]
    try:
        loader = Loader(policy, seconds=LOAD_SECONDS)
        outcomes = await asyncio.gather(*(loader.load(each, retry_scheduled=True) for each in opened))
        for outcome in outcomes:
            report(outcome.server_id, outcome.error or "")
        yield Gateway(
            inventory,
            Decisions(policy, agent=agent, config=config.agents.get(agent)),
            phrases(config.path, given, filter(inventory.sees, config.catalog)),
            FileStatus(),
            Metrics(),
            agent,
            loads=Loads({outcome.server_id: _Ended(outcome) for outcome in outcomes}),
        )
    finally:
        await asyncio.gather(*(upstream.close() for upstream in opened))


class _Ended:
    """A load that has ended."""

    is_pending = False

    def __init__(self, outcome: LoadOutcome) -> None:
        self.outcome = outcome

    async def wait_until_known(self) -> None:
        """Return: the load has a result."""

    async def wait_until_classified(self) -> None:
        """Return: the result is classified."""


def refused_edits(approvals: Approvals) -> Mapping[str, str]:
    """Return what a gateway that starts with these files would say about one that it cannot read."""
    return FileStatus(approvals_readable=approvals.readable).messages()
