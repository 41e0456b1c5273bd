"""How long a command waits for a server."""

from __future__ import annotations

from callability.gateway.config import CatalogEntry, Config, ServerConfig

FIRST_START_SECONDS = 60.0


def open_seconds(config: Config, server: ServerConfig | CatalogEntry) -> float:
    """Return how many seconds a server has to connect.

    Without `open_seconds` in the config, it has more than under a gateway, which tries again: its first start may
    install it, as with `uvx`, and the person who waits can stop the command.
    """
    deadlines = config.deadlines.of(server)
    return deadlines.open_seconds if "open_seconds" in deadlines.model_fields_set else FIRST_START_SECONDS
