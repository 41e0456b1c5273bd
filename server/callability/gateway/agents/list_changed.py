"""Notifies agents that their tools have changed, in both revisions of MCP, and only those whose tools they are."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp_types import INTERNAL_ERROR, SubscriptionsListenRequestParams, SubscriptionsListenResult

from callability.gateway.config.values import MAX_SESSIONS


class ListChangedNotifier:
    """The agents to notify; use it in one event loop."""

    def __init__(self) -> None:
        self._buses: dict[str, InMemorySubscriptionBus] = {}
        self._handlers: dict[str, ListenHandler] = {}
        # The library drops a message to a session that has ended.
        self._sessions: OrderedDict[str, tuple[str, ServerSession]] = OrderedDict()
        self._sending: dict[ServerSession, bool] = {}
        """The sessions that are being notified, and whether their tools have changed since that began."""
        self._closed = False

    async def notify(self, agents: Iterable[str]) -> None:
        """Notify some agents that their tools have changed; a session that does not read holds up no other."""
        concerned = set(agents)
        for agent in concerned & self._buses.keys():
            await self._buses[agent].publish(ToolsListChanged())
        sessions = tuple(self._sessions.values())
        await asyncio.gather(*(self._notify_session(session) for agent, session in sessions if agent in concerned))

    def add_session(self, agent: str, session: ServerSession, session_id: str) -> None:
        """Notify a session of MCP 2025-11-25 from now on; over stdio its id is empty."""
        self._sessions[session_id or str(id(session))] = agent, session
        # One that ends while it is added is never removed: it makes room in the end.
        while len(self._sessions) > MAX_SESSIONS:
            self._sessions.popitem(last=False)

    def remove_session(self, session_id: str) -> None:
        """Forget a session that has ended."""
        self._sessions.pop(session_id, None)

    async def listen(
        self, agent: str, context: ServerRequestContext[Any], params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """Notify a stream of MCP 2026-07-28 until its client disconnects, or the gateway ends.

        Raises:
            MCPError: the gateway is ending.
        """
        if self._closed:
            raise MCPError(INTERNAL_ERROR, "the gateway is shutting down")
        bus = self._buses.setdefault(agent, InMemorySubscriptionBus())
        return await self._handlers.setdefault(agent, ListenHandler(bus))(context, params)

    def close(self) -> None:
        """End every stream of MCP 2026-07-28 as the protocol says, and accept no new one."""
        self._closed = True
        for handler in self._handlers.values():
            handler.close()

    async def _notify_session(self, session: ServerSession) -> None:
        """Notify a session once the notification before has been sent: one is enough for all changes until then."""
        if session in self._sending:
            self._sending[session] = True
            return
        changed = True
        try:
            while changed:
                self._sending[session] = False
                await session.send_tool_list_changed()
                changed = self._sending[session]
        finally:
            del self._sending[session]
