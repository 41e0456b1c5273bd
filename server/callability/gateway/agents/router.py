"""Agents: who asks, by what token, and the gateway that exists for them (FR-007)."""

from __future__ import annotations

import hashlib
import hmac
import logging
from collections.abc import Mapping

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp_types import Tool

from callability.gateway.agents.list_changed import ListChangedNotifier
from callability.gateway.config import AgentConfig, HttpConfig
from callability.gateway.tools.dispatch import Gateway

_logger = logging.getLogger(__name__)


class Tokens:
    """Tells agents by the SHA-256 of their bearer tokens."""

    def __init__(self, agents: Mapping[str, AgentConfig]) -> None:
        self._digests = {
            name: agent.token_sha256.lower().encode() for name, agent in agents.items() if agent.token_sha256
        }

    def __bool__(self) -> bool:
        """Whether any agent has a token."""
        return bool(self._digests)

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return who the agent is, or None; the time that it takes tells nothing about the tokens."""
        digest = hashlib.sha256(token.encode()).hexdigest().encode()
        found: str | None = None
        for name, expected in self._digests.items():
            if hmac.compare_digest(digest, expected):
                found = name
        return None if found is None else AccessToken(token=token, client_id=found, scopes=[])


class AgentRouter:
    """A gateway for each agent, and one for whoever is not told apart, which sees every server; edits replace them."""

    def __init__(self, by_agent: Mapping[str, Gateway], nobody: Gateway, tokens: Tokens, http: HttpConfig) -> None:
        self.guarded = False
        """Whether tokens are asked for over HTTP."""
        self.list_changed = ListChangedNotifier()
        self.replace(by_agent, nobody, tokens, http)

    def replace(self, by_agent: Mapping[str, Gateway], nobody: Gateway, tokens: Tokens, http: HttpConfig) -> None:
        """Put others in the place of what is there, for the requests from now on.

        `nobody` is for an agent that the config no longer has, and sees no server. Where tokens are asked for they are
        until the end: whoever takes the last one away wants nobody to come in.
        """
        if self.guarded and not tokens:
            _logger.warning("no agent has a token any more: every request is refused until the gateway starts again")
        self.guarded = self.guarded or bool(tokens)
        self._by_agent, self._nobody, self.tokens = by_agent, nobody, tokens
        self.http = http
        """What agents may use over HTTP, for the requests from now on."""

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return who the agent with a token is at the moment, or None."""
        return await self.tokens.verify_token(token)

    def agent_of_request(self, agent: str) -> str:
        """Return the agent whose token came with the request at hand, else `agent`."""
        token = get_access_token()
        return token.client_id if token else agent

    def gateway_for_request(self, agent: str) -> Gateway:
        """Return the gateway of the agent whose token came with the request at hand, else of `agent`."""
        return self._by_agent.get(self.agent_of_request(agent), self._nobody)

    def agents_seeing(self, server: str) -> tuple[str, ...]:
        """Return the agents that may see a server."""
        return tuple(agent for agent, gateway in self._by_agent.items() if gateway.sees(server))

    @property
    def tools(self) -> Mapping[str, tuple[Tool, ...]]:
        """The gateway's own tools, as each agent sees them at the moment."""
        return {agent: gateway.tools for agent, gateway in self._by_agent.items()}
