"""Which agent sends a request, by its token, and which gateway answers it (FR-007)."""

from __future__ import annotations

import hashlib
import hmac
import logging
from collections.abc import Callable, Mapping

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp_types import Tool

from callability.gateway.agents.list_changed import ListChangedNotifier
from callability.gateway.config import AgentConfig, HttpConfig
from callability.gateway.tools.dispatch import Gateway

_logger = logging.getLogger(__name__)


class Tokens:
    """Identifies agents by the SHA-256 of their bearer tokens."""

    def __init__(self, agents: Mapping[str, AgentConfig]) -> None:
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
        return None if found is None else AccessToken(token=token, client_id=found, scopes=[])


class AgentRouter:
    """Holds a gateway for each agent, and one for callers without a name, which sees every server."""

    def __init__(self, by_agent: Mapping[str, Gateway], nobody: Gateway, tokens: Tokens, http: HttpConfig) -> None:
        self.guarded = False
        """Whether HTTP requests need a token."""
        self.list_changed = ListChangedNotifier()
        self.http_changed: Callable[[], object] = lambda: None
        """Called after an edit has replaced the limits for agents over HTTP."""
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

    @property
    def tools(self) -> Mapping[str, tuple[Tool, ...]]:
        """The gateway's own tools, as each agent sees them now."""
        return {agent: gateway.tools for agent, gateway in self._by_agent.items()}
