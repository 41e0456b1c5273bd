"""A server as `upstream_servers` shows it (A.6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rapidfuzz import fuzz, process

from callability.adapter import error_result
from callability.finding import shown
from callability.gateway.inventory.inventory import Inventory
from callability.gateway.loading import LoadOutcome

_RESTLESS = (
    "announces changes of its tools again and again; they are read after pauses, so `retrieve_tools` may show an"
    " earlier list"
)


def server_entry(
    inventory: Inventory, server: str, counts: Mapping[str, int] | None, outcome: LoadOutcome | None
) -> dict[str, Any]:
    """Return a server's entry: how it stands, what came of its latest load, if that is known, else why it is not
    connected, and its counts if a tool is not callable.
    """
    config, upstream = inventory.servers[server], inventory.upstream(server)
    entry: dict[str, Any] = {
        "name": server,
        "type": "http" if config.url else "stdio",
        "enabled": config.enabled,
        "quarantined": config.quarantined,
        "state": upstream.state if upstream else "disabled",
    }
    if upstream and outcome:
        error = {} if outcome.error is None else {"error": outcome.error}
        entry["load"] = {"status": str(outcome.status), "attempts": outcome.attempts, **error}
    elif upstream and upstream.failure:
        entry["reason"] = upstream.failure
    if upstream and upstream.is_restless:
        entry["note"] = _RESTLESS
    if counts:
        entry["tools"] = dict(counts)
    return entry


def unknown_server(name: str, servers: Iterable[str]) -> dict[str, Any]:
    """Return the result for a server that does not exist for the caller."""
    near = process.extract(name[:256], sorted(servers), scorer=fuzz.ratio, score_cutoff=50, limit=3)
    hint = f" Near to it: {', '.join(f'`{each}`' for each, _, _ in near)}." if near else ""
    return error_result(f"Not done: there is no server {shown(name)}.{hint} The operation `list` shows them all.")
