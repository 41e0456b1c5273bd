"""A gateway as its files say at the moment: every edit puts other gateways in the place of those before."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from callability.finding import shown
from callability.gateway.agents.router import Gateways, Tokens
from callability.gateway.catalog import Catalog
from callability.gateway.config import Approvals, Config, HttpConfig
from callability.gateway.inventory.inventory import Inventory
from callability.gateway.loading import Loads
from callability.gateway.observability.file_status import Standing
from callability.gateway.observability.metrics import Metrics
from callability.gateway.observability.unread_facts import Unread
from callability.gateway.policy_client.stub import CallabilityStub
from callability.gateway.runtime.label_check import LabelCheck
from callability.gateway.runtime.pool import Fleet
from callability.gateway.runtime.watched_files import Files
from callability.gateway.tools.decisions import Decisions
from callability.gateway.tools.dispatch import Gateway
from callability.gateway.tools.remedies import phrases
from callability.gateway.upstream import REST_SECONDS, Upstream, UpstreamError
from callability.tool_name import MAX_BYTES, byte_length

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Setup:
    """What a gateway is made of: its config, the approvals file where another is given than the config's, the policy's
    stub, its metrics, how what it follows stands, and what compares the labels of the config with the policy.
    """

    config: Config
    approvals: Path | None
    stub: CallabilityStub
    metrics: Metrics = field(default_factory=Metrics)
    standing: Standing = field(default_factory=Standing)
    labels: LabelCheck | None = None
    rest_seconds: float = REST_SECONDS
    """For how long calls do not open a server again whose opening failed, from its beginning on."""


@asynccontextmanager
async def opened(setup: Setup) -> AsyncIterator[Gateways]:
    """Begin to connect every enabled server and to follow the files, and disconnect them all at the end."""
    live = Live(setup)
    following = asyncio.create_task(live.follow())
    try:
        yield live.gateways
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await live.close()


class Live:
    """The gateways of every agent."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._files = Files(setup.config, setup.approvals, setup.metrics, setup.standing, setup.labels)
        self._fleet = Fleet(setup.stub, setup.rest_seconds)
        self._catalog = Catalog(setup.stub, self._announce)
        setup.metrics.follow(self._fleet.states, self._fleet.loads)
        self._inventory: Inventory | None = None
        self._approvals = self._files.approvals
        self._told: set[str] = set()
        self._unread = Unread()
        self._tasks: set[asyncio.Task[None]] = set()
        self.gateways = Gateways(*self._made())
        self._warn_of_leftovers()

    async def follow(self) -> None:
        """Take edits of the files over, for ever; calls under way end where they began."""
        async for _ in self._files.edits():
            try:
                before = self.gateways.tools
                self.gateways.replace(*self._made())
                self._renew()
                after = self.gateways.tools
                self._begin(self._announced(agent for agent in after if after[agent] != before.get(agent)))
                self._warn_of_leftovers()
            except Exception:
                _logger.exception("an edit could not be put into force")

    async def close(self) -> None:
        """Disconnect every server."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._setup.labels is not None:
            await self._setup.labels.close()
        await asyncio.gather(self._fleet.close(), self._catalog.close())

    def _made(self) -> tuple[dict[str, Gateway], Gateway, Tokens, HttpConfig]:
        """Return gateways over the state at hand: for each agent, for whoever is not told apart, and for nobody."""
        config = self._files.config
        if self._setup.labels is not None:
            self._setup.labels.apply(config)
        self._fleet.apply(config)
        self._catalog.apply(config)
        inventory = Inventory(
            config, self._files.approvals, self._fleet.upstreams, self._inventory, lambda: self._catalog.joined
        )
        self._inventory = inventory
        by_agent = {name: self._gateway(inventory.scoped(agent.servers), name) for name, agent in config.agents.items()}
        nobody = self._gateway(inventory.scoped(()), "")
        return {"": self._gateway(inventory, ""), **by_agent}, nobody, Tokens(config.agents), config.http

    def _renew(self) -> None:
        """Connect servers anew of which a form was approved that they do not list: the person saw another process."""
        before, now = self._approvals, self._files.approvals
        self._approvals = now
        for name, upstream in self._fleet.upstreams.items():
            listed = {tool.name: tool.sha256 for tool in upstream.tools}
            for tool, record in now.records.get(name, {}).items():
                new = record != before.record(name, tool)
                if new and record.sha256 and listed.get(tool, record.sha256) != record.sha256:
                    upstream.renew()

    def _gateway(self, inventory: Inventory, agent: str) -> Gateway:
        return Gateway(
            inventory,
            Decisions(self._setup.stub, agent=agent, unread=self._unread),
            phrases(self._files.config.path, self._files.given, filter(inventory.sees, self._files.config.catalog)),
            self._files.standing,
            self._setup.metrics,
            agent,
            catalog=self._catalog,
            loads=Loads(self._fleet.keepers),
        )

    def _announce(self, server: str) -> None:
        """Tell the agents that may see a server of the catalog that its tools have come or gone."""
        self._begin(self._announced(self.gateways.seeing(server)))
        joined = self._catalog.joined.get(server)
        if joined is not None:
            self._begin(self._warn_of_unmatched(self._files.config, self._files.approvals, joined.upstream))

    async def _announced(self, agents: Iterable[str]) -> None:
        await self.gateways.announcements.announce(agents)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _warn_of_leftovers(self) -> None:
        config, approvals = self._files.config, self._files.approvals
        for server in approvals.records:
            if server not in config.servers and server not in config.catalog:
                self._warn(f"the approvals have records of server {shown(server)}, which is not in the config")
        for upstream in self._fleet.upstreams.values():
            if not config.servers[upstream.name].enabled:
                self._tell(f"`{upstream.name}` is switched off in the config, and is not connected", logging.INFO)
            else:
                self._begin(self._warn_of_unmatched(config, approvals, upstream))

    async def _warn_of_unmatched(self, config: Config, approvals: Approvals, upstream: Upstream) -> None:
        """Log entries of a server's two lists and records that none of its tools has (A.2), and names that are none."""
        try:
            await upstream.opened()
        except UpstreamError:
            return
        names = {tool.name for tool in upstream.tools}
        for finding in config.unmatched(upstream.name, names):
            self._warn(str(finding))
        for tool in approvals.tools(upstream.name):
            if tool not in names:
                self._warn(f"the approval record of {shown(tool)} matches no tool of server `{upstream.name}`")
        unaskable = sum(not 0 < byte_length(name) <= MAX_BYTES for name in names)
        if unaskable:
            self._warn(
                f"`{upstream.name}` lists {unaskable} tools whose names are empty or have more than"
                f" {MAX_BYTES} bytes: they cannot be called"
            )

    def _warn(self, sentence: str) -> None:
        self._tell(sentence, logging.WARNING)

    def _tell(self, sentence: str, level: int) -> None:
        """Log a sentence, once for as long as the gateway runs."""
        if sentence not in self._told:
            self._told.add(sentence)
            _logger.log(level, "%s", sentence)
