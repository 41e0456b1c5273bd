"""What the gateway sends about an agent."""

from __future__ import annotations

from collections.abc import Mapping

from callability.gateway.config import AgentConfig
from callability.v1.facts_pb2 import Agent, DeclaredFacts, Labels


def agent_message(name: str, config: AgentConfig | None) -> Agent:
    """Return an agent as the contract has it; one without an entry in the config has no labels and no facts."""
    if config is None:
        return Agent(name=name, labels=Labels())
    return Agent(name=name, labels=Labels(values=config.labels), declared_facts=declared_facts(config.facts))


def declared_facts(values: Mapping[str, str]) -> DeclaredFacts | None:
    """Return declared facts as the contract has them; without any, the message means what it means absent."""
    return DeclaredFacts(values=values) if values else None
