"""The upstreams of a config as it is at the moment; an edit touches those that it concerns and no others."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from callability.gateway.config import Config, ServerConfig
from callability.gateway.upstream import Target, Upstream, UpstreamTool, target_of

LONGEST_PAUSE = 600.0
"""Seconds between two openings of a server that fails, at the most."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What an upstream is made of: with another of these it has to be made anew."""

    target: Target
    names_only: bool
    enabled: bool


class Fleet:
    """One upstream for each server of the config; use it in one event loop."""

    def __init__(self) -> None:
        self._members: Mapping[str, tuple[_Wanted, Upstream]] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._keepers: dict[Upstream, asyncio.Task[None]] = {}

    @property
    def upstreams(self) -> Mapping[str, Upstream]:
        """The upstreams by name; those of disabled servers are not started."""
        return {name: upstream for name, (_, upstream) in self._members.items()}

    def states(self) -> Mapping[str, int]:
        """Return how many servers there are in each state; it may be asked from any thread."""
        return Counter(each.state if wanted.enabled else "disabled" for wanted, each in self._members.values())

    def apply(self, config: Config) -> None:
        """Start what a config has anew, and begin to close what it no longer has; what stays is not touched."""
        earlier = self._members
        self._members = {name: self._member(name, _wanted(server)) for name, server in config.servers.items()}
        for name, (_, upstream) in earlier.items():
            if name not in self._members or self._members[name][1] is not upstream:
                self._close(upstream)
        for wanted, upstream in self._members.values():
            upstream.wait_at_most(config.deadlines)
            if wanted.enabled and upstream.state == "closed":
                upstream.start()
                self._keep(upstream)

    async def close(self) -> None:
        """Disconnect every server, and return when nothing is left of any."""
        for keeper in self._keepers.values():
            keeper.cancel()
        for _, upstream in self._members.values():
            self._close(upstream)
        await asyncio.gather(*self._closing, return_exceptions=True)

    def _keep(self, upstream: Upstream) -> None:
        self._keepers[upstream] = asyncio.create_task(_kept_open(upstream), name=f"keeping {upstream.name}")

    def _close(self, upstream: Upstream) -> None:
        keeper = self._keepers.pop(upstream, None)
        if keeper is not None:
            keeper.cancel()
        upstream.disconnect()
        task = asyncio.create_task(upstream.close(), name=f"closing {upstream.name}")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _member(self, name: str, wanted: _Wanted) -> tuple[_Wanted, Upstream]:
        earlier = self._members.get(name)
        if earlier is not None and earlier[0] == wanted:
            return earlier
        tools: tuple[UpstreamTool, ...] = ()
        # What the same server listed earlier stays known (A.4).
        if earlier is not None and earlier[0].target == wanted.target:
            tools = earlier[1].tools
        kept = tuple(tool.without_text() for tool in tools) if wanted.names_only else tools
        return wanted, Upstream(name, wanted.target, names_only=wanted.names_only, tools=kept)


async def _kept_open(upstream: Upstream) -> None:
    """Open an upstream again that failed: of one that never opened nobody finds a tool, and so nobody calls one."""
    pause = upstream.reopen_seconds
    while True:
        await asyncio.sleep(pause)
        if upstream.state == "failed":
            upstream.start()
            await upstream.current()
        pause = min(2 * pause, LONGEST_PAUSE) if upstream.state == "failed" else upstream.reopen_seconds


def _wanted(server: ServerConfig) -> _Wanted:
    return _Wanted(target_of(server), server.quarantined, server.enabled)
