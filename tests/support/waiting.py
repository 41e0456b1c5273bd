"""Waiting for what a program does by itself: a test looks until it sees what it wants."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from mcp import Client

from support.gateways import call, retrieve

SECONDS = 120


def eventually(look: Callable[[], object]) -> None:
    """Look until it is so; an edit is noticed when the system tells it, which nobody can wait for."""
    patience = time.monotonic() + SECONDS
    while not look():
        assert time.monotonic() < patience
        time.sleep(0.02)


async def becomes(look: Callable[[], Awaitable[Any]], wanted: Any) -> None:
    """Look until there is what is wanted; an edit is noticed when the system tells it, which nobody can wait for."""
    seen: Any = None
    async with asyncio.timeout(SECONDS):
        while (seen := await look()) != wanted:  # noqa: ASYNC110  # it is an event of another process
            await asyncio.sleep(0.02)
    assert seen == wanted


def names(query: str, client: Client) -> Callable[[], Awaitable[list[str]]]:
    """Return what tells the names of the tools that are found."""

    async def look() -> list[str]:
        return [tool["name"] for tool in (await retrieve(client, query))["tools"]]

    return look


def status(client: Client, name: str) -> Callable[[], Awaitable[str | None]]:
    """Return what tells the status with which a call is rejected, None for a call that is answered."""

    async def look() -> str | None:
        result = await call(client, name)
        return (result.structured_content or {}).get("status") if result.is_error else None

    return look


def file_status(client: Client) -> Callable[[], Awaitable[set[str]]]:
    """Return what tells which files do not stand as they are written."""

    async def look() -> set[str]:
        servers_listed = (await client.call_tool("upstream_servers", {})).structured_content
        return set(servers_listed) - {"servers"}

    return look


async def listed(client: Client) -> dict[str, Any]:
    """Return what `upstream_servers` answers."""
    servers_listed = (await client.call_tool("upstream_servers", {})).structured_content
    assert isinstance(servers_listed, dict)
    return servers_listed


def loads(client: Client, *servers: str) -> Callable[[], Awaitable[list[tuple[str, str | None]]]]:
    """Return what tells the state and the status of the load of servers."""

    async def look() -> list[tuple[str, str | None]]:
        entries = {entry["name"]: entry for entry in (await listed(client))["servers"]}
        return [(entries[name]["state"], entries[name].get("load", {}).get("status")) for name in servers]

    return look
