"""The running gateway: every edit of its files replaces the gateways of all agents."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from callability.client.judgements import Judgements
from callability.gateway.agents.router import AgentRouter, Tokens
from callability.gateway.catalog import Catalog
from callability.gateway.config import HttpConfig
from callability.gateway.config.approvals import DEFAULT_APPROVALS
from callability.gateway.inventory.index_cache import Indexes
from callability.gateway.inventory.inventory import Inventory
from callability.gateway.loading import Loads
from callability.gateway.observability.definition_changes import DefinitionChanges
from callability.gateway.observability.unread_facts import UnreadFacts
from callability.gateway.runtime.first_forms import FirstForms
from callability.gateway.runtime.name_warnings import NameWarnings
from callability.gateway.runtime.options import GatewayOptions
from callability.gateway.runtime.pool import UpstreamPool
from callability.gateway.runtime.watched_files import Edit, Files
from callability.gateway.tools.decisions import Decisions
from callability.gateway.tools.dispatch import Gateway
from callability.gateway.tools.remedies import phrases
from callability.gateway.upstream import UpstreamTool

_logger = logging.getLogger(__name__)


@asynccontextmanager
async def opened(options: GatewayOptions) -> AsyncIterator[AgentRouter]:
    """Start to connect every enabled server and to follow the files; at the end, disconnect every server."""
    runtime = GatewayRuntime(options)
    following = asyncio.create_task(runtime.follow())
    try:
        yield runtime.router
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await runtime.close()


class GatewayRuntime:
    """Connects the servers, follows the files, and keeps a gateway for each agent."""

    def __init__(self, options: GatewayOptions) -> None:
        self._options = options
        self._files = Files(options.config, options.approvals, options.metrics, options.file_status, options.labels)
        self._forms = FirstForms(self._files, self._apply)
        self._changes = DefinitionChanges()
        options.metrics.changed_definitions = self._changes.counts
        self._pool = UpstreamPool(options.policy, options.rest_seconds, self._witness)
        self._catalog = Catalog(options.policy, self._announce, witness=self._witness)
        options.metrics.follow(self._pool.states, self._pool.loads)
        self._inventory: Inventory | None = None
        self._approvals = self._files.approvals
        self._warnings = NameWarnings()
        self._unread = UnreadFacts()
        self._judgements, self._indexes = Judgements(), Indexes()
        self._tasks: set[asyncio.Task[None]] = set()
        self.router = AgentRouter(*self._made())
        self._warn_of_names()

    async def follow(self) -> None:
        """Apply edits of the files, forever; a call that is not sent yet is decided again."""
        async for edit in self._files.edits():
            self._apply(edit)

    def _apply(self, edit: Edit) -> None:
        try:
            before = self.router.tools
            self.router.replace(*self._made())
            if edit.config:
                self._pool.retry(renew="config" not in edit.accepted)
            self._renew()
            after = self.router.tools
            self._begin(self._announced(agent for agent in after if after[agent] != before.get(agent)))
            self._warn_of_names()
            self._files.report_applied(edit)
            # A record may have been removed, or `trust` changed.
            for upstream in (*self._pool.upstreams.values(), *(it.upstream for it in self._catalog.joined.values())):
                if upstream.state == "connected":
                    self._begin(self._forms.record(upstream.name, upstream.tools))
        except Exception:
            _logger.exception("an edit could not be applied")

    async def close(self) -> None:
        """Disconnect every server."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._options.labels is not None:
            await self._options.labels.close()
        await asyncio.gather(self._pool.close(), self._catalog.close())
        await self._forms.close()
        await self._changes.close()

    def _made(self) -> tuple[dict[str, Gateway], Gateway, Tokens, HttpConfig]:
        """Return gateways over the current files: for each agent, for a caller without a name, and for nobody."""
        config = self._files.config
        if self._options.labels is not None:
            self._options.labels.apply(config)
        approvals_file = self._files.approvals_path(config) or config.path.with_name(DEFAULT_APPROVALS)
        self._changes.apply(config, self._files.approvals, approvals_file)
        agent = self._options.only_agent
        scope = None if not agent else config.agents[agent].servers if agent in config.agents else ()
        self._pool.apply(config, scope)
        self._catalog.apply(config)
        inventory = Inventory(
            config, self._files.approvals, self._pool.upstreams, self._inventory, lambda: self._catalog.joined
        )
        self._inventory = inventory
        scopes = {name: agent.servers for name, agent in config.agents.items()}
        self._unread.keep({"": (*config.servers, *config.catalog), **scopes})
        scoped = {"": inventory, **{name: inventory.scoped(servers) for name, servers in scopes.items()}}
        by_agent = {name: self._gateway(it, name, partial(self._gateway_of, name)) for name, it in scoped.items()}
        return by_agent, self._gateway(inventory.scoped(()), ""), Tokens(config.agents), config.http

    def _renew(self) -> None:
        """Reconnect a server if a definition was approved that it does not list: the person saw another process."""
        before, now = self._approvals, self._files.approvals
        self._approvals = now
        for name, upstream in self._pool.upstreams.items():
            listed = {tool.name: tool.fingerprint for tool in upstream.tools}
            for tool, record in now.records.get(name, {}).items():
                new = record != before.record(name, tool)
                if new and record.is_pinned and tool in listed and not listed[tool].matches(record.sha256):
                    upstream.renew()

    def _gateway_of(self, agent: str) -> Gateway:
        return self.router.gateway_of(agent)

    def _gateway(self, inventory: Inventory, agent: str, latest: Callable[[], Gateway] | None = None) -> Gateway:
        return Gateway(
            inventory,
            Decisions(
                self._options.policy,
                agent=agent,
                config=self._files.config.agents.get(agent),
                unread=self._unread,
                judgements=self._judgements,
            ),
            phrases(self._files.config.path, self._files.given, filter(inventory.sees, self._files.config.catalog)),
            self._files.file_status,
            self._options.metrics,
            agent,
            catalog=self._catalog,
            loads=Loads(self._pool.supervisors),
            indexes=self._indexes,
            latest=latest,
            changed_definitions=self._changes.unreviewed,
        )

    async def _witness(self, server: str, tools: tuple[UpstreamTool, ...]) -> None:
        """See each list of a server's tools before it counts."""
        self._changes.take(server, tools)
        await self._forms.record(server, tools)

    def _announce(self, server: str) -> None:
        """Notify the agents that may see a server of the catalog that its tools have come or gone."""
        self._begin(self._announced(self.router.agents_seeing(server)))
        joined = self._catalog.joined.get(server)
        if joined is not None:
            self._begin(self._warnings.about(joined.upstream, self._files.config, self._files.approvals))

    async def _announced(self, agents: Iterable[str]) -> None:
        await self.router.list_changed.notify(agents)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _warn_of_names(self) -> None:
        """Warn of servers and tools that a file names and that are not there, each as soon as that is known."""
        config, approvals = self._files.config, self._files.approvals
        self._warnings.about_servers(config, approvals)
        for upstream in self._pool.upstreams.values():
            if upstream.name in self._pool.supervisors:
                self._begin(self._warnings.about(upstream, config, approvals))
