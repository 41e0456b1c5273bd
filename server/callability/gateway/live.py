"""A gateway that follows its files: an edit takes effect without a restart, whole or not at all (A.7)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from watchfiles import Change, awatch

from callability import document
from callability.finding import Finding, shown
from callability.gateway.agents import Gateways, Tokens
from callability.gateway.config import NO_APPROVALS, Approvals, Config, ConfigRefused, load_approvals, load_config
from callability.gateway.decisions import MAX_NAME_BYTES, CallabilityStub, Decisions
from callability.gateway.fleet import Fleet
from callability.gateway.gateway import Gateway
from callability.gateway.inventory import Inventory
from callability.gateway.metrics import Metrics
from callability.gateway.phrases import phrases
from callability.gateway.standing import Standing
from callability.gateway.upstream import Upstream, UpstreamError

# Also without an event the files are looked at: on some file systems none comes, and none does while watching begins.
LOOK_MILLISECONDS = 5_000
# It tells every change that it hears of.
logging.getLogger("watchfiles").setLevel(logging.WARNING)
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Setup:
    """What a gateway is made of: its config, the approvals file where another is given than the config's, the policy's
    stub, and its metrics.
    """

    config: Config
    approvals: Path | None
    stub: CallabilityStub
    metrics: Metrics = field(default_factory=Metrics)

    def approvals_of(self, config: Config) -> Path | None:
        """Return the approvals file that goes with a config."""
        return self.approvals or config.approvals


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
    """The gateways of every agent as the files say at the moment."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._fleet = Fleet()
        setup.metrics.follow(self._fleet.states)
        self._standing = Standing()
        self._warned: set[str] = set()
        self._warning: set[asyncio.Task[None]] = set()
        self._config = setup.config
        self._approvals_path = setup.approvals_of(setup.config)
        self._approvals = load_approvals(self._approvals_path) if self._approvals_path else NO_APPROVALS
        self._standing.approvals_readable = self._approvals.readable
        _tell(self._approvals.warnings)
        self._seen = (self._config.digest, self._approvals.digest)
        self.gateways = Gateways(*self._current())
        self._warn_of_leftovers()

    async def follow(self) -> None:
        """Look at the files at every change in their directories, for ever."""
        while True:
            watched = self._directories()
            async for _ in awatch(
                *watched,
                watch_filter=self._concerns,
                recursive=False,
                yield_on_timeout=True,
                rust_timeout=LOOK_MILLISECONDS,
            ):
                self.look()
                if self._directories() != watched:
                    break

    def look(self) -> None:
        """Take the files over where they were edited and are sound; where one is not, what it said before holds."""
        seen = self._digests()
        if seen == self._seen:
            return
        config_edited, approvals_edited = (new != old for new, old in zip(seen, self._seen, strict=True))
        self._seen = seen
        if config_edited:
            self._read_config()
        path = self._setup.approvals_of(self._config)
        if approvals_edited or path != self._approvals_path:
            self._read_approvals(path)
            # It may be another file than the one that was looked at.
            self._seen = (seen[0], self._approvals_seen)
        # Calls under way end where they began.
        self.gateways.replace(*self._current())
        self._warn_of_leftovers()

    async def close(self) -> None:
        """Disconnect every server."""
        for task in self._warning:
            task.cancel()
        await asyncio.gather(*self._warning, return_exceptions=True)
        await self._fleet.close()

    def _read_config(self) -> None:
        try:
            self._config = load_config(self._config.path)
        except ConfigRefused as refused:
            _tell(refused.findings)
            _logger.exception("the edit of the config is not taken over: what it said before still holds")
            self._standing.config_broken = True
        else:
            self._standing.config_broken = False
            _logger.info("the edit of the config is taken over: %d servers", len(self._config.servers))
        self._count("config", broken=self._standing.config_broken)

    def _read_approvals(self, path: Path | None) -> None:
        approvals = load_approvals(path) if path else NO_APPROVALS
        _tell(approvals.warnings)
        self._approvals_path, self._approvals_seen = path, approvals.digest
        self._standing.approvals_broken = not approvals.readable
        if approvals.readable:
            self._approvals = approvals
            self._standing.approvals_readable = True
            _logger.info("the edit of the approvals is taken over")
        else:
            _logger.error("the edit of the approvals is not taken over: what they said before still holds")
        self._count("approvals", broken=self._standing.approvals_broken)

    def _count(self, file: str, *, broken: bool) -> None:
        self._setup.metrics.edited(file, taken_over=not broken)
        self._setup.metrics.stands(file, broken=broken)

    def _current(self) -> tuple[dict[str, Gateway], Gateway, Tokens]:
        """Return gateways over the state at hand: for each agent, for whoever is not told apart, and for nobody."""
        config = self._config
        self._fleet.apply(config)
        inventory = Inventory(config, self._approvals, self._fleet.upstreams)
        by_agent = {name: self._gateway(inventory.scoped(agent.servers), name) for name, agent in config.agents.items()}
        nobody = self._gateway(inventory.scoped(()), "")
        return {"": self._gateway(inventory, ""), **by_agent}, nobody, Tokens(config.agents)

    def _warn_of_leftovers(self) -> None:
        config = self._config
        for server in self._approvals.records:
            if server not in config.servers:
                self._warn(f"the approvals have records of server {shown(server)}, which is not in the config")
        for upstream in self._fleet.upstreams.values():
            if config.servers[upstream.name].enabled:
                task = asyncio.create_task(self._warn_of_unmatched(config, self._approvals, upstream))
                self._warning.add(task)
                task.add_done_callback(self._warning.discard)

    def _gateway(self, inventory: Inventory, agent: str) -> Gateway:
        given = self._setup.approvals
        return Gateway(
            inventory,
            Decisions(self._setup.stub, inventory, agent=agent),
            phrases(self._config.path.resolve(), given.resolve() if given else None),
            self._standing,
            self._setup.metrics,
        )

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
        unaskable = sum(not 0 < len(name.encode()) <= MAX_NAME_BYTES for name in names)
        if unaskable:
            self._warn(
                f"`{upstream.name}` lists {unaskable} tools whose names are empty or have more than"
                f" {MAX_NAME_BYTES} bytes: they cannot be called"
            )

    def _warn(self, sentence: str) -> None:
        """Log a warning, once for as long as the gateway runs."""
        if sentence not in self._warned:
            self._warned.add(sentence)
            _logger.warning("%s", sentence)

    def _digests(self) -> tuple[str, str]:
        return _digest(self._config.path), _digest(self._approvals_path)

    def _concerns(self, _: Change, path: str) -> bool:
        """Say whether a change in a watched directory is one of a file; the log may well be written there."""
        files = [each for each in (self._config.path, self._approvals_path) if each]
        return Path(path).name in {name for each in files for name in (each.name, each.resolve().name)}

    def _directories(self) -> tuple[Path, ...]:
        """Return where the files and what links lead to lie: an atomic edit puts a new file in the place of the old."""
        files = [path for path in (self._config.path, self._approvals_path) if path]
        places = {each.parent.absolute() for path in files for each in (path, path.resolve())}
        return tuple(sorted(place for place in places if place.is_dir()))


def _digest(path: Path | None) -> str:
    """Return what tells one state of a file from another; empty for a file that cannot be read."""
    try:
        return document.digest(document.read_bytes(path)) if path else ""
    except document.Refused:
        return ""


def _tell(findings: Iterable[Finding]) -> None:
    for finding in findings:
        _logger.warning("%s", finding)
