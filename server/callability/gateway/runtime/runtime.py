"""The running gateway: every edit of its files replaces the gateways of all agents, and upstreams that it concerns."""

from __future__ import annotations

import asyncio
import logging
from asyncio import Event, Task
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from callability.client.judgements import Judgements
from callability.contract.vocabulary import LoadStatus
from callability.gateway.agents import AgentRouter, FilesInEffect, Tokens
from callability.gateway.call_records import ChangeRecords
from callability.gateway.catalog.catalog import Catalog
from callability.gateway.config.approvals import DEFAULT_APPROVALS
from callability.gateway.config.changes import approval_changes, config_changes
from callability.gateway.config.config import Config
from callability.gateway.config.model import HttpConfig, ServerConfig
from callability.gateway.inventory import GatewayInventory
from callability.gateway.loading import LoadPolicy, Loads, Supervisor, in_words, numbers_of
from callability.gateway.meaning import Indexes
from callability.gateway.observability import DefinitionChanges, FileStatus, Metrics, UnreadFacts
from callability.gateway.policy_client import PolicyClient
from callability.gateway.runtime.watched_files import Edit, Files, FirstForms, LabelCheck, NameWarnings
from callability.gateway.tools.decisions import Decisions, phrases
from callability.gateway.tools.dispatch import Gateway
from callability.gateway.upstream.listing import UpstreamTool, Witness, witness_nothing
from callability.gateway.upstream.login_store import StoredLogin
from callability.gateway.upstream.target import Target, logged_in_target
from callability.gateway.upstream.upstream import REST_SECONDS, Upstream
from callability.process.background import begin_task, end_tasks, in_background
from callability.records.recorder import Recorder

if TYPE_CHECKING:
    from callability.records.shadow import Shadow

_NOT_BY_ITSELF = frozenset({LoadStatus.DENIED, LoadStatus.PERMANENT})
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What an upstream is made of; if any of this changes, it is replaced."""

    target: Target
    names_only: bool
    enabled: bool
    login: str
    """The id of the stored login, empty if there is none."""


@dataclass(frozen=True, slots=True)
class _Member:
    """An upstream, and its supervisor if it is enabled."""

    wanted: _Wanted
    upstream: Upstream
    supervisor: Supervisor | None = None


class UpstreamPool:
    """One upstream for each server of the config; use it in one event loop. The policy classifies failed loads.

    For `rest_seconds` after the start of an opening that fails, no call opens the server again. `witness` is awaited
    with each list of tools before it counts.
    """

    def __init__(
        self,
        policy: LoadPolicy,
        rest_seconds: float = REST_SECONDS,
        witness: Witness = witness_nothing,
        recorder: Recorder | None = None,
    ) -> None:
        self._policy = policy
        self._witness = witness
        self._recorder = recorder
        self._rest_seconds = rest_seconds
        self._members: Mapping[str, _Member] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._logging: asyncio.Task[None] | None = None

    @property
    def upstreams(self) -> Mapping[str, Upstream]:
        """The upstreams by name; those of disabled servers are not started."""
        return {name: member.upstream for name, member in self._members.items()}

    @property
    def supervisors(self) -> Mapping[str, Supervisor]:
        """The supervisors of the enabled servers, by name."""
        return {name: member.supervisor for name, member in self._members.items() if member.supervisor}

    def states(self) -> Mapping[str, int]:
        """Return how many servers are in each state; callable from any thread."""
        members = self._members.values()
        return Counter(each.upstream.state if each.wanted.enabled else "disabled" for each in members)

    def loads(self) -> Mapping[str, int]:
        """Return how many enabled servers have each load status; callable from any thread."""
        return numbers_of(self.supervisors.values())

    def failed(self) -> Mapping[str, str]:
        """Return the load status of each enabled server that does not recover by itself; callable from any thread."""
        outcomes = {name: supervisor.outcome for name, supervisor in self.supervisors.items()}
        return {name: str(it.status) for name, it in outcomes.items() if it and it.status in _NOT_BY_ITSELF}

    def apply(self, config: Config, scope: Collection[str] | None = None) -> None:
        """Start the new servers of a config, and start to close those that it no longer has; the others are not
        touched. No server beyond a `scope` is started.
        """
        earlier = self._members
        self._members = {
            name: self._member(name, server, config, is_wanted=server.enabled and (scope is None or name in scope))
            for name, server in config.servers.items()
        }
        for name, member in earlier.items():
            if name not in self._members or self._members[name].upstream is not member.upstream:
                self._close(member)
        if self._logging is None:
            self._logging = asyncio.create_task(self._log_first_loads(), name="report of the first loads")

    def retry(self, *, renew: bool) -> None:
        """Start to open every enabled server that is not connected, whatever its last outcome.

        With `renew`, one that is connected and fails is connected again.
        """
        for member in self._members.values():
            if member.supervisor and renew and member.upstream.is_failing:
                member.upstream.renew()
            elif member.supervisor:
                member.upstream.start()

    async def close(self) -> None:
        """Disconnect every server, and return when nothing is left of any."""
        if self._logging is not None:
            await end_tasks(self._logging)
        for member in self._members.values():
            self._close(member)
        await asyncio.gather(*self._closing, return_exceptions=True)

    def _close(self, member: _Member) -> None:
        if member.supervisor is not None:
            member.supervisor.end()
        member.upstream.disconnect()
        begin_task(_close_member(member), self._closing, f"closing {member.upstream.name}")

    def _member(self, name: str, server: ServerConfig, config: Config, *, is_wanted: bool) -> _Member:
        stored = StoredLogin(config.path, name, in_keyring=config.tokens == "keyring")
        remedy = f": run {phrases(config.path, None).login(name)}"
        target = logged_in_target(server, stored, remedy, config.environment)
        wanted = _Wanted(target, server.quarantined, is_wanted, stored.login_id() if server.url else "")
        earlier = self._members.get(name)
        if earlier is not None and earlier.wanted == wanted:
            earlier.upstream.set_deadlines(config.deadlines.of(server))
            return _Member(wanted, earlier.upstream, earlier.supervisor)
        tools: tuple[UpstreamTool, ...] = ()
        opens_older = False
        # What the same server listed earlier stays known (A.4).
        if earlier is not None and earlier.wanted.target == wanted.target:
            tools, opens_older = earlier.upstream.tools, earlier.upstream.opens_older
        kept = tuple(tool.without_text() for tool in tools) if wanted.names_only else tools
        upstream = Upstream(
            name,
            wanted.target,
            names_only=wanted.names_only,
            tools=kept,
            rest_seconds=self._rest_seconds,
            opens_older=opens_older,
            witness=self._witness,
        )
        upstream.set_deadlines(config.deadlines.of(server))
        return _Member(wanted, upstream, Supervisor(upstream, self._policy, self._recorder) if wanted.enabled else None)

    async def _log_first_loads(self) -> None:
        """Log the outcome of the first loads once, when the last of them is over."""
        supervisors = tuple(self.supervisors.values())
        await asyncio.gather(*(supervisor.wait_until_loaded() for supervisor in supervisors))
        if supervisors:
            _logger.info("%s", in_words(numbers_of(supervisors)))


async def _close_member(member: _Member) -> None:
    if member.supervisor is not None:
        await member.supervisor.close()
    await member.upstream.close()


@dataclass(frozen=True, slots=True)
class GatewayOptions:
    """The config, the approvals file if it is not the config's own, and what asks the policy.

    `metrics` and `file_status` are written by the gateway, and `labels` compares the labels of the config with the
    policy.
    """

    config: Config
    approvals: Path | None
    policy: PolicyClient
    metrics: Metrics = field(default_factory=Metrics)
    file_status: FileStatus = field(default_factory=FileStatus)
    labels: LabelCheck | None = None
    only_agent: str = ""
    """The agent that alone is served: no server beyond its scope is started."""
    beginning: Task[None] | None = None
    """What loads the policy while the gateway answers already; it fails if the policy is refused."""
    first_answer: Event = field(default_factory=Event)
    """Set once an agent has read an answer, or if nothing waits for that: what no first answer needs is loaded then."""
    by_meaning: bool = False
    """Whether tools are found by meaning too, which needs the extra `semantic`."""
    recorder: Recorder | None = None
    """What writes records of calls and changes; None if nobody asks for them."""
    shadow: Shadow | None = None
    """What a candidate decides by, beside the policy in effect; None if there is none."""
    command_records: Path | None = None
    """Where the commands that edit the files write their records, if that is where this gateway writes too."""
    rest_seconds: float = REST_SECONDS
    """For how long after the start of a failed opening calls do not open the server again."""
    policy_directory: Path | None = None
    """Where the policy of this process is read from; None: the shipped one, or that of a service."""
    policy_address: str = ""
    """The service that decides, if one does."""
    has_status_socket: bool = False
    """Whether people's commands on this machine can ask this gateway."""


@asynccontextmanager
async def open_gateway(options: GatewayOptions) -> AsyncIterator[AgentRouter]:
    """Start to connect every enabled server and to follow the files; at the end, disconnect every server."""
    async with opened_runtime(options) as runtime:
        yield runtime.router


@asynccontextmanager
async def opened_runtime(options: GatewayOptions) -> AsyncIterator[GatewayRuntime]:
    """Do what `open_gateway` does, and yield what keeps the servers and the files."""
    runtime = GatewayRuntime(options)
    try:
        async with in_background(runtime.follow()):
            yield runtime
    finally:
        await runtime.close()


class GatewayRuntime:
    """Connects the servers, follows the files, and keeps a gateway for each agent."""

    def __init__(self, options: GatewayOptions) -> None:
        self.options = options
        """What the gateway was started with."""
        if options.config.is_awaited:
            awaited = phrases(options.config.path.absolute(), options.approvals).config_awaited()
            options.file_status.config_awaited = awaited
        self.files = Files(options.config, options.approvals, options.metrics, options.file_status, options.labels)
        """The files that are in effect."""
        self._forms = FirstForms(self.files, self._apply)
        self._changes = DefinitionChanges()
        options.metrics.changed_definitions = self._changes.counts
        self._pool = UpstreamPool(options.policy, options.rest_seconds, self._witness, options.recorder)
        self.records = ChangeRecords(options.recorder, options.command_records, self.files.config)
        """What records changes."""
        self.files.count_edit = self.records.count_edit
        self._recorded = self.files.config, self.files.approvals
        self._catalog = Catalog(options.policy, self._announce, witness=self._witness)
        options.metrics.follow(self._pool.states, self._pool.loads)
        options.metrics.failed_servers = self._pool.failed
        self._inventory: GatewayInventory | None = None
        self._approvals = self.files.approvals
        self._warnings = NameWarnings()
        self._unread = UnreadFacts()
        self._judgements, self._indexes = Judgements(), Indexes(by_meaning=options.by_meaning)
        self._tasks: set[asyncio.Task[None]] = set()
        self.report_applied: Callable[[], object] = lambda: None
        """Called after an edit was applied."""
        self.listed: Callable[[str, tuple[UpstreamTool, ...]], object] = lambda server, tools: None
        """Called with each list of a server's tools that counts."""
        self.router = AgentRouter(*self._make_gateways())
        self.router.files = self._files_in_effect
        self._warn_of_names()

    @property
    def inventory(self) -> GatewayInventory:
        """All servers and tools, whatever an agent may see."""
        assert self._inventory is not None
        return self._inventory

    @property
    def loads(self) -> Loads:
        """The loads of the servers of the config."""
        return Loads(self._pool.supervisors)

    def decisions_for(self, agent: str) -> Decisions:
        """Return what decides for an agent, apart from what is reported about the facts of the agent itself."""
        config = self.files.config.agents.get(agent)
        return Decisions(self.options.policy, agent=agent, config=config, judgements=self._judgements)

    async def read_files(self) -> None:
        """Apply what was just written to the files, without waiting until the edit is noticed."""
        edit = await self.files.look()
        if edit is not None:
            self._apply(edit)

    async def follow(self) -> None:
        """Apply edits of the files, forever; a call that is not sent yet is decided again."""
        async for edit in self.files.edits():
            self._apply(edit)

    def _apply(self, edit: Edit) -> None:
        try:
            before = self.router.tools
            self.router.replace(*self._make_gateways())
            if edit.config:
                self._pool.retry(renew="config" not in edit.accepted)
            self._renew()
            after = self.router.tools
            self._begin(self._announce_changes(agent for agent in after if after[agent] != before.get(agent)))
            self._warn_of_names()
            self.files.report_applied(edit)
            self.report_applied()
            self._record_decisions()
            # A record may have been removed, or `trust` changed.
            for upstream in (*self._pool.upstreams.values(), *(it.upstream for it in self._catalog.joined.values())):
                if upstream.state == "connected":
                    self._begin(self._forms.record(upstream.name, upstream.tools))
        except Exception:
            _logger.exception("an edit could not be applied")

    async def close(self) -> None:
        """Disconnect every server."""
        await end_tasks(*self._tasks)
        if self.options.labels is not None:
            await self.options.labels.close()
        await asyncio.gather(self._pool.close(), self._catalog.close())
        await self._forms.close()
        await self._changes.close()

    def _files_in_effect(self) -> FilesInEffect:
        files = self.files
        refused = self.options.file_status.messages()
        return FilesInEffect(files.config, files.approvals_path(files.config), files.approvals.digest, refused)

    def _make_gateways(self) -> tuple[dict[str, Gateway], Gateway, Tokens, HttpConfig]:
        """Return gateways over the current files: for each agent, for a caller without a name, and for nobody."""
        config = self.files.config
        if self.options.labels is not None:
            self.options.labels.apply(config)
        approvals_file = self.files.approvals_path(config) or config.path.with_name(DEFAULT_APPROVALS)
        self._changes.apply(config, self.files.approvals, approvals_file)
        agent = self.options.only_agent
        scope = None if not agent else config.agents[agent].servers if agent in config.agents else ()
        self._pool.apply(config, scope)
        self._catalog.apply(config)
        inventory = GatewayInventory(
            config, self.files.approvals, self._pool.upstreams, self._inventory, lambda: self._catalog.joined
        )
        self._inventory = inventory
        scopes = {name: agent.servers for name, agent in config.agents.items()}
        self._unread.keep({"": (*config.servers, *config.catalog), **scopes})
        scoped = {"": inventory, **{name: inventory.limit_to(servers) for name, servers in scopes.items()}}
        by_agent = {name: self._gateway(it, name, partial(self._gateway_of, name)) for name, it in scoped.items()}
        return by_agent, self._gateway(inventory.limit_to(()), ""), Tokens(config.agents), config.http

    def _renew(self) -> None:
        """Reconnect a server if a definition was approved that it does not list: the person saw another process."""
        before, now = self._approvals, self.files.approvals
        self._approvals = now
        for name, upstream in self._pool.upstreams.items():
            listed = {tool.name: tool.fingerprint for tool in upstream.tools}
            for tool, record in now.records.get(name, {}).items():
                new = record != before.record(name, tool)
                if new and record.is_pinned and tool in listed and not listed[tool].matches(record.sha256):
                    upstream.renew()

    def _record_decisions(self) -> None:
        """Record what people decided in the files since the last time."""
        config, approvals = self._recorded
        self._recorded = now, decided = self.files.config, self.files.approvals
        path, changes = self.files.approvals_path(now), tuple(approval_changes(approvals, decided))
        self._begin(self.records.record_decisions("approvals", decided.digest, path, changes))
        changes = tuple(config_changes(config, now, self.records.last_list))
        self._begin(self.records.record_decisions("config", now.digest, now.path, changes))

    def _gateway_of(self, agent: str) -> Gateway:
        return self.router.gateway_of(agent)

    def _gateway(self, inventory: GatewayInventory, agent: str, latest: Callable[[], Gateway] | None = None) -> Gateway:
        config = self.files.config
        logins = (name for name, server in config.servers.items() if server.oauth is not None)
        return Gateway(
            inventory,
            Decisions(
                self.options.policy,
                agent=agent,
                config=config.agents.get(agent),
                unread=self._unread,
                judgements=self._judgements,
                recorder=self.options.recorder,
                shadow=self.options.shadow,
            ),
            phrases(config.path, self.files.given, filter(inventory.sees, config.catalog), logins),
            self.files.file_status,
            self.options.metrics,
            agent,
            catalog=self._catalog,
            loads=Loads(self._pool.supervisors),
            indexes=self._indexes,
            latest=latest,
            changed_definitions=self._changes.count_unreviewed,
            recorder=self.options.recorder,
            shadow=self.options.shadow,
        )

    async def _witness(self, server: str, tools: tuple[UpstreamTool, ...]) -> None:
        """See each list of a server's tools before it counts."""
        known = frozenset(self._changes.names(server))
        changed = self._changes.take(server, tools)
        beside = self.files.approvals_path(self.files.config) or self.files.config.path
        self.records.record_list(server, tools, changed, known, self.files.approvals, beside)
        await self._forms.record(server, tools)
        self.listed(server, tools)

    def _announce(self, server: str) -> None:
        """Notify the agents that may see a server of the catalog that its tools have come or gone."""
        self._begin(self._announce_changes(self.router.agents_seeing(server)))
        joined = self._catalog.joined.get(server)
        if joined is not None:
            self._begin(self._warnings.about(joined.upstream, self.files.config, self.files.approvals))

    async def _announce_changes(self, agents: Iterable[str]) -> None:
        await self.router.list_changed.notify(agents)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        begin_task(work, self._tasks)

    def _warn_of_names(self) -> None:
        """Warn of servers and tools that a file names and that are not there, each as soon as that is known."""
        config, approvals = self.files.config, self.files.approvals
        self._warnings.about_servers(config, approvals)
        for upstream in self._pool.upstreams.values():
            if upstream.name in self._pool.supervisors:
                self._begin(self._warnings.about(upstream, config, approvals))
