"""What came of the loads of a gateway's servers, by their names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Protocol

from callability.adapter import Phrases
from callability.gateway.loading.load_outcome import LoadOutcome, messages_of
from callability.vocabulary import LoadStatus


class Load(Protocol):
    """What is known of the loads of one server; its `Supervisor` knows it."""

    @property
    def outcome(self) -> LoadOutcome | None:
        """The latest outcome, where it is known."""

    @property
    def is_pending(self) -> bool:
        """Whether nothing is known yet of what the first load comes to."""

    async def known(self) -> None:
        """Wait until something is."""


class Loads:
    """The loads of the servers that are enabled; of any other server nothing is known, and nobody waits for it."""

    def __init__(self, loads: Mapping[str, Load] = MappingProxyType({})) -> None:
        self._loads = loads

    def outcome(self, server: str) -> LoadOutcome | None:
        """Return the latest outcome of a server, where it is known."""
        return self._loads[server].outcome if server in self._loads else None

    def messages(self, servers: Iterable[str], phrases: Phrases) -> dict[LoadStatus, str]:
        """Return what to say of those of some servers that did not load, by status (L-7)."""
        outcomes = {server: outcome for server in servers if (outcome := self.outcome(server))}
        return messages_of(outcomes, phrases=phrases)

    def is_pending(self, server: str) -> bool:
        """Say whether nothing is known yet of what the first load of a server comes to, and will be."""
        return server in self._loads and self._loads[server].is_pending

    async def known(self, server: str) -> None:
        """Wait until something is known of what the first load of a server comes to."""
        if server in self._loads:
            await self._loads[server].known()
