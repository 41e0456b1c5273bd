"""Distinguishes a child that hangs from one that works quietly: it is sent a ping."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from mcp import ClientSession, MCPError
from pydantic import ValidationError

from callability.gateway.upstream.failure import Failure
from callability.gateway.upstream.stdio_transport import StdioTransport

PING_SECONDS = 3
"""How long a child has for the answer to a ping, after a call during which it wrote nothing."""


class Silence:
    """Pings a child that wrote nothing during a call; `hangs` gets the failure of that call if it still does not.

    Calls in the same silence share one ping.
    """

    def __init__(self, child: StdioTransport, hangs: Callable[[Failure], None]) -> None:
        self._child = child
        self._hangs = hangs
        self._silent_since = -1
        self._failures: asyncio.Queue[tuple[int, Failure]] = asyncio.Queue()
        self._ended = False
        self._decided = asyncio.Event()
        self._decided.set()

    def ask(self, since: int, failure: Failure) -> None:
        """Have the child pinged if it wrote nothing after `since` messages, when the call began that has failed."""
        if since == self._child.heard != self._silent_since and not self._ended:
            self._silent_since = since
            self._failures.put_nowait((since, failure))
            self._decided.clear()

    async def decided(self) -> None:
        """Wait until no ping is under way, or the connection has ended."""
        await self._decided.wait()

    def end(self) -> None:
        """Release all who wait; nothing is asked from now on."""
        self._ended = True
        self._decided.set()

    async def follow(self, session: ClientSession) -> None:
        """Ping the child when a call has asked for it, for as long as the connection lasts."""
        while True:
            since, failure = await self._failures.get()
            await _ping(session)
            if self._child.heard == since:
                self._hangs(failure)
            elif self._failures.empty():
                self._decided.set()


async def _ping(session: ClientSession) -> None:
    """Give a child that works quietly time to say something; that it knows no `ping` is an answer as well."""
    with suppress(MCPError, ValidationError, TimeoutError):
        async with asyncio.timeout(PING_SECONDS):
            await session.send_ping()
