"""An agent of MCP 2025-11-25 that reads what the gateway sends only when a test says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from callability.gateway.agents import AgentRouter
from callability.gateway.serving.mcp_server import mcp_server
from support.gateway_requests import INITIALIZE


class SilentAgent:
    """Its streams have no room: the gateway waits with each message until this one is read."""

    def __init__(
        self,
        outgoing: MemoryObjectSendStream[SessionMessage | Exception],
        incoming: MemoryObjectReceiveStream[SessionMessage],
    ) -> None:
        self._outgoing = outgoing
        self._incoming = incoming

    @property
    def unread(self) -> int:
        """How many messages the gateway is trying to send."""
        return self._incoming.statistics().tasks_waiting_send

    async def send(self, method: str, params: dict[str, Any] | None = None, **keys: Any) -> None:
        """Send a message; with an `id`, it is a request."""
        message = {"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params}), **keys}
        await self._outgoing.send(SessionMessage(jsonrpc_message_adapter.validate_python(message)))

    async def read(self) -> dict[str, Any]:
        """Read one message."""
        read = await self._incoming.receive()
        return read.message.model_dump(mode="json", by_alias=True, exclude_unset=True)


@asynccontextmanager
async def silent_agent(router: AgentRouter) -> AsyncIterator[SilentAgent]:
    """Connect an agent to a gateway of this process; it has read the answer to `initialize` and nothing else."""
    outgoing, to_gateway = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    from_gateway, incoming = anyio.create_memory_object_stream[SessionMessage](0)
    server = mcp_server(router)
    serving = asyncio.create_task(server.run(to_gateway, from_gateway, server.create_initialization_options()))
    it = SilentAgent(outgoing, incoming)
    with outgoing, to_gateway, from_gateway, incoming:
        try:
            await it.send(INITIALIZE["method"], INITIALIZE["params"], id=INITIALIZE["id"])
            await it.read()
            await it.send("notifications/initialized")
            # The answer to a later message says that the gateway has taken the one before.
            await it.send("ping", id=2)
            await it.read()
            yield it
        finally:
            serving.cancel()
            with suppress(asyncio.CancelledError):
                await serving
