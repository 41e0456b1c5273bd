"""Agents: who asks, by what token, and the gateway that exists for them (FR-007)."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken

from callability.gateway.config import AgentConfig
from callability.gateway.gateway import Gateway


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


class Gateways:
    """A gateway for each agent, and one for whoever is not told apart, which sees every server."""

    def __init__(self, by_agent: Mapping[str, Gateway], agent: str = "") -> None:
        self._by_agent = by_agent
        self._agent = agent

    def for_agent(self, agent: str) -> Gateways:
        """Return the gateways of a transport that has one agent only.

        Raises:
            KeyError: there is no such agent.
        """
        return Gateways({agent: self._by_agent[agent]}, agent)

    def asked(self) -> Gateway:
        """Return the gateway of the agent on whose behalf the request at hand is made."""
        token = get_access_token()
        return self._by_agent[token.client_id if token else self._agent]
