"""The current catalog: its switches, and the servers that are enabled."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from types import MappingProxyType

from callability.gateway.catalog.enable_classifier import EnableClassifier
from callability.gateway.catalog.joined import Joined
from callability.gateway.catalog.switch import Switch
from callability.gateway.config import CatalogEntry, Config
from callability.gateway.policy_client.policy_client import PolicyClient
from callability.gateway.upstream import Witness, unwitnessed

_REACHING = ("command", "args", "env", "cwd", "url", "headers", "oauth")
"""The keys of an entry that say how its server is reached; with other values it is another server."""


class Catalog:
    """One switch for each entry; use it in one event loop.

    `changed` is called with the name of a server when it has joined, and when it has gone, and `witness` is awaited
    with each list of tools of a server before it counts.
    """

    def __init__(
        self,
        policy: PolicyClient,
        changed: Callable[[str], None],
        environment: Mapping[str, str] = os.environ,
        witness: Witness = unwitnessed,
    ) -> None:
        self._classifier = EnableClassifier(policy)
        self._report_change = changed
        self._environment = environment
        self._witness = witness
        self._switches: dict[str, Switch] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._joined: Mapping[str, Joined] = MappingProxyType({})

    @property
    def switches(self) -> Mapping[str, Switch]:
        """The switches by name, in the order of the config."""
        return self._switches

    @property
    def joined(self) -> Mapping[str, Joined]:
        """The enabled servers by name; a new mapping whenever they change."""
        return self._joined

    def apply(self, config: Config) -> None:
        """Apply the catalog of a config; enabled servers stay enabled, unless they are reached differently now."""
        earlier, self._switches = self._switches, {}
        for name, entry in config.catalog.items():
            switch = earlier.get(name)
            if switch is None or _reached(switch.entry) != _reached(entry):
                switch = self._switch(name, entry, config)
            switch.take(entry, config.deadlines)
            self._switches[name] = switch
        for name, switch in earlier.items():
            if self._switches.get(name) is not switch:
                task = asyncio.create_task(switch.close(), name=f"closing {name}")
                self._closing.add(task)
                task.add_done_callback(self._closing.discard)
        self._gather()

    async def close(self) -> None:
        """Disable every server, and return when nothing is left of any."""
        switches, self._switches = self._switches, {}
        await asyncio.gather(*(switch.close() for switch in switches.values()), *self._closing, return_exceptions=True)

    def _switch(self, name: str, entry: CatalogEntry, config: Config) -> Switch:
        def changed() -> None:
            self._gather()
            self._report_change(name)

        return Switch(name, entry, config.deadlines, self._classifier, changed, self._environment, self._witness)

    def _gather(self) -> None:
        """Replace the mapping of enabled servers if it has changed."""
        joined = {name: switch.joined for name, switch in self._switches.items() if switch.joined is not None}
        if joined != self._joined:
            self._joined = MappingProxyType(joined)


def _reached(entry: CatalogEntry) -> tuple[object, ...]:
    return tuple(getattr(entry, key) for key in _REACHING)
