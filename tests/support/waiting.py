"""Waiting for effects that come by themselves: a test polls until it sees the expected state."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from mcp import Client

from support.gateways import call, retrieve

SECONDS = 120
_PATIENCE_SECONDS = 5 * SECONDS
"""Only a test that fails waits for so long: what is waited for may be several starts and checks of a policy."""


def eventually(look: Callable[[], object]) -> None:
    """Poll until a condition holds; the time at which a program notices an edit cannot be awaited."""
    patience = time.monotonic() + _PATIENCE_SECONDS
    while not look():
        assert time.monotonic() < patience
        time.sleep(0.02)


async def becomes(look: Callable[[], Awaitable[Any]], wanted: Any) -> None:
    """Poll until a value is the expected one; the time at which a program notices an edit cannot be awaited."""
    seen: Any = None
    async with asyncio.timeout(_PATIENCE_SECONDS):
        while (seen := await look()) != wanted:  # noqa: ASYNC110  # it is an event of another process
            await asyncio.sleep(0.02)
    assert seen == wanted


def names(query: str, client: Client) -> Callable[[], Awaitable[list[str]]]:
    """Return a function that returns the names of the tools that are found."""

    async def look() -> list[str]:
        return [tool["name"] for tool in (await retrieve(client, query))["tools"]]

    return look


def status(client: Client, name: str) -> Callable[[], Awaitable[str | None]]:
    """Return a function that returns the status with which a call is rejected, None if it is answered."""

    async def look() -> str | None:
        result = await call(client, name)
        return (result.structured_content or {}).get("status") if result.is_error else None

    return look


def file_status(client: Client) -> Callable[[], Awaitable[set[str]]]:
    """Return a function that returns which files are not in effect as written."""

    async def look() -> set[str]:
        servers_listed = (await client.call_tool("upstream_servers", {})).structured_content
        return set(servers_listed) - {"servers"}

    return look


async def listed(client: Client) -> dict[str, Any]:
    """Return the answer of `upstream_servers`."""
    servers_listed = (await client.call_tool("upstream_servers", {})).structured_content
    assert isinstance(servers_listed, dict)
    return servers_listed


def load_error(client: Client, server: str) -> Callable[[], Awaitable[str | None]]:
    """Return a function that returns why a server did not load."""

    async def look() -> str | None:
        errors = {entry["name"]: entry.get("load", {}).get("error") for entry in (await listed(client))["servers"]}
        return errors.get(server)

    return look


def loads(client: Client, *servers: str) -> Callable[[], Awaitable[list[tuple[str, str | None]]]]:
    """Return a function that returns the state and the load status of a server."""

    async def look() -> list[tuple[str, str | None]]:
        entries = {entry["name"]: entry for entry in (await listed(client))["servers"]}
        return [(entries[name]["state"], entries[name].get("load", {}).get("status")) for name in servers]

    return look
