"""The upstreams of a config as it is at the moment; an edit touches those that it concerns and no others."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from callability.gateway.config import Config, ServerConfig
from callability.gateway.upstream import Target, Upstream, UpstreamTool, target_of


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What an upstream is made of: with another of these it has to be made anew."""

    target: Target
    names_only: bool
    enabled: bool


class Fleet:
    """One upstream for each server of the config; use it in one event loop."""

    def __init__(self) -> None:
        self._wanted: dict[str, _Wanted] = {}
        self._upstreams: dict[str, Upstream] = {}
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def upstreams(self) -> Mapping[str, Upstream]:
        """The upstreams by name; those of disabled servers are not started."""
        return dict(self._upstreams)

    def apply(self, config: Config) -> None:
        """Start what a config has anew, and begin to close what it no longer has; what stays is not touched."""
        wanted = {name: _wanted(server) for name, server in config.servers.items()}
        made = {
            name: self._upstreams[name] if self._wanted.get(name) == new else self._made(name, new)
            for name, new in wanted.items()
        }
        gone = [upstream for name, upstream in self._upstreams.items() if made.get(name) is not upstream]
        self._wanted, self._upstreams = wanted, made
        for upstream in gone:
            task = asyncio.create_task(upstream.close(), name=f"closing {upstream.name}")
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
        for name, upstream in made.items():
            upstream.wait_at_most(config.deadlines)
            if wanted[name].enabled and upstream.state == "closed":
                upstream.start()

    async def close(self) -> None:
        """Disconnect every server, and return when nothing is left of any."""
        closing = [*self._closing, *(asyncio.create_task(each.close()) for each in self._upstreams.values())]
        await asyncio.gather(*closing, return_exceptions=True)

    def _made(self, name: str, wanted: _Wanted) -> Upstream:
        return Upstream(name, wanted.target, names_only=wanted.names_only, tools=self._remembered(name, wanted))

    def _remembered(self, name: str, wanted: _Wanted) -> tuple[UpstreamTool, ...]:
        """Return the tools that the server listed earlier, as long as it is the same server (A.4)."""
        earlier = self._wanted.get(name)
        if earlier is None or earlier.target != wanted.target:
            return ()
        tools = self._upstreams[name].tools
        return tuple(tool.without_text() for tool in tools) if wanted.names_only else tools


def _wanted(server: ServerConfig) -> _Wanted:
    return _Wanted(target_of(server), server.quarantined, server.enabled)
