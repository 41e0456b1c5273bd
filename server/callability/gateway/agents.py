"""Which agent sends a request, by its token, which gateway answers it (FR-007), and whom a change of tools concerns."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mcp import MCPError
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp_types import INTERNAL_ERROR, SubscriptionsListenRequestParams, SubscriptionsListenResult, Tool

from callability.contract.finding import as_code
from callability.gateway.config.config import Config
from callability.gateway.config.model import MAX_SESSIONS, AgentConfig, HttpConfig
from callability.gateway.tools.dispatch import Gateway
from callability.process.logs import LogInterval


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


_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FilesInEffect:
    """The files by which a gateway answers: a digest tells whether one was edited since.

    `refused` has a sentence about each that is not in effect as it is written.
    """

    config: Config | None
    approvals: Path | None = None
    approvals_digest: str = ""
    refused: Mapping[str, str] = field(default_factory=dict)


NO_FILES = FilesInEffect(None)


class Tokens:
    """Identifies agents by the SHA-256 of their bearer tokens."""

    def __init__(self, agents: Mapping[str, AgentConfig]) -> None:
        self._agents = agents
        self._void = LogInterval()
        self._digests = {
            name: agent.token_sha256.lower().encode() for name, agent in agents.items() if agent.token_sha256
        }

    def __bool__(self) -> bool:
        """Whether any agent has a token."""
        return bool(self._digests)

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the agent of a token, or None; the time that this takes reveals nothing about the tokens."""
        digest = hashlib.sha256(token.encode()).hexdigest().encode()
        found: str | None = None
        for name, expected in self._digests.items():
            if hmac.compare_digest(digest, expected):
                found = name
        if found is None:
            return None
        if not self._agents[found].has_valid_token(datetime.now(UTC)):
            if self._void.due(found):
                words = "agent %s gets 401: its token is void since %s; `callability agents add --renew` makes another"
                _logger.warning(words, as_code(found), self._agents[found].token_expires)
            return None
        return AccessToken(token=token, client_id=found, scopes=[])


class AgentRouter:
    """Holds a gateway for each agent, and one for callers without a name, which sees every server."""

    def __init__(self, by_agent: Mapping[str, Gateway], nobody: Gateway, tokens: Tokens, http: HttpConfig) -> None:
        self.guarded = False
        """Whether HTTP requests need a token."""
        self.list_changed = ListChangedNotifier()
        self.http_changed: Callable[[], object] = lambda: None
        """Called after an edit has replaced the limits for agents over HTTP."""
        self.files: Callable[[], FilesInEffect] = lambda: NO_FILES
        """Returns the files that are in effect."""
        self.is_over_http = False
        """Whether agents come over HTTP, where one without a token has no name."""
        self.replace(by_agent, nobody, tokens, http)

    def replace(self, by_agent: Mapping[str, Gateway], nobody: Gateway, tokens: Tokens, http: HttpConfig) -> None:
        """Replace the gateways for the requests from now on.

        `nobody` sees no server: it is for an agent that the config no longer has. Once tokens are required they stay so
        until the gateway ends, because a person who removes the last token wants to keep everybody out.
        """
        if self.guarded and not tokens:
            _logger.warning("no agent has a token any more: every request is refused until the gateway starts again")
        self.guarded = self.guarded or bool(tokens)
        self._by_agent, self._nobody, self.tokens = by_agent, nobody, tokens
        self.http = http
        """The limits for agents over HTTP, for the requests from now on."""
        self.http_changed()

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the agent that currently has a token, or None."""
        return await self.tokens.verify_token(token)

    def agent_of_request(self, agent: str) -> str:
        """Return the agent whose token came with the current request; without a token, `agent`."""
        token = get_access_token()
        return token.client_id if token else agent

    def gateway_for_request(self, agent: str) -> Gateway:
        """Return the gateway of the agent that sent the current request; without a token, of `agent`."""
        return self.gateway_of(self.agent_of_request(agent))

    def gateway_of(self, agent: str) -> Gateway:
        """Return the gateway that currently answers an agent.

        An agent that the config no longer has sees no server, nor does one over HTTP that came without a token before
        tokens were required.
        """
        if not agent and self.is_over_http and self.guarded:
            return self._nobody
        return self._by_agent.get(agent, self._nobody)

    def agents_seeing(self, server: str) -> tuple[str, ...]:
        """Return the agents that may see a server."""
        return tuple(agent for agent, gateway in self._by_agent.items() if gateway.sees(server))

    def gateway_named(self, agent: str) -> Gateway | None:
        """Return the gateway of an agent of the config, or of callers without a name; None if there is no such agent.

        It is for people who ask about the agent: whether such an agent can connect does not matter.
        """
        return self._by_agent.get(agent)

    @property
    def tools(self) -> Mapping[str, tuple[Tool, ...]]:
        """The gateway's own tools, as each agent sees them now."""
        return {agent: gateway.tools for agent, gateway in self._by_agent.items()}
