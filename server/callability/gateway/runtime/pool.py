"""The upstreams of the current config; an edit touches only those that it concerns."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from callability.gateway.config import Config, ServerConfig
from callability.gateway.loading import LoadPolicy, Supervisor, in_words, numbers_of
from callability.gateway.upstream import REST_SECONDS, Target, Upstream, UpstreamTool, Witness, target_of, unwitnessed

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What an upstream is made of; if any of this changes, it is replaced."""

    target: Target
    names_only: bool
    enabled: bool


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

    def __init__(self, policy: LoadPolicy, rest_seconds: float = REST_SECONDS, witness: Witness = unwitnessed) -> None:
        self._policy = policy
        self._witness = witness
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
            self._logging.cancel()
            await asyncio.gather(self._logging, return_exceptions=True)
        for member in self._members.values():
            self._close(member)
        await asyncio.gather(*self._closing, return_exceptions=True)

    def _close(self, member: _Member) -> None:
        if member.supervisor is not None:
            member.supervisor.end()
        member.upstream.disconnect()
        task = asyncio.create_task(_closed(member), name=f"closing {member.upstream.name}")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _member(self, name: str, server: ServerConfig, config: Config, *, is_wanted: bool) -> _Member:
        wanted = _Wanted(target_of(server), server.quarantined, is_wanted)
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
        return _Member(wanted, upstream, Supervisor(upstream, self._policy) if wanted.enabled else None)

    async def _log_first_loads(self) -> None:
        """Log the outcome of the first loads once, when the last of them is over."""
        supervisors = tuple(self.supervisors.values())
        await asyncio.gather(*(supervisor.loaded() for supervisor in supervisors))
        if supervisors:
            _logger.info("%s", in_words(numbers_of(supervisors)))


async def _closed(member: _Member) -> None:
    if member.supervisor is not None:
        await member.supervisor.close()
    await member.upstream.close()
