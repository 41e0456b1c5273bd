"""The outcomes of the loads of a gateway's servers, by name."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Protocol

from callability.adapter import Phrases
from callability.gateway.loading.load_outcome import LoadOutcome, messages_of
from callability.vocabulary import LoadStatus

CLASSIFY_SECONDS = 2.0
"""How long an answer about a server that is not connected waits for the policy to say what can be done."""


class Load(Protocol):
    """The loads of one server, as its `Supervisor` reports them."""

    @property
    def outcome(self) -> LoadOutcome | None:
        """The latest outcome, or None if there is none yet."""

    @property
    def is_pending(self) -> bool:
        """Whether the first load is still without a result."""

    async def known(self) -> None:
        """Wait until the first load has a first result."""

    async def classified(self) -> None:
        """Wait until the try to load that is under way, if any, has a result."""


class Loads:
    """The loads of the enabled servers. Any other server has no outcome and is never pending."""

    def __init__(self, loads: Mapping[str, Load] = MappingProxyType({})) -> None:
        self._loads = loads

    def outcome(self, server: str) -> LoadOutcome | None:
        """Return the latest outcome of a server, or None if there is none yet."""
        return self._loads[server].outcome if server in self._loads else None

    def messages(self, servers: Iterable[str], phrases: Phrases) -> dict[LoadStatus, str]:
        """Return what an agent says to its user about those of some servers that did not load, by status (L-7)."""
        outcomes = {server: outcome for server in servers if (outcome := self.outcome(server))}
        return messages_of(outcomes, phrases=phrases)

    def is_pending(self, server: str) -> bool:
        """Return whether the first load of a server is still without a result."""
        return server in self._loads and self._loads[server].is_pending

    async def known(self, server: str) -> None:
        """Wait until the first load of a server has a first result."""
        if server in self._loads:
            await self._loads[server].known()

    async def classified(self, server: str) -> None:
        """Wait until the try to load a server that is under way, if any, has a result."""
        if server in self._loads:
            await self._loads[server].classified()

    async def classified_soon(self, server: str) -> None:
        """Wait for the same, but not for long: the policy may give no answer."""
        with suppress(TimeoutError):
            async with asyncio.timeout(CLASSIFY_SECONDS):
                await self.classified(server)
