"""How a gateway connects to a policy: in its own process, or by a service at an address."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from callability.command_line.own_policy import OwnPolicy
from callability.command_line.policy_service import PolicyService
from callability.gateway.observability.metrics import Metrics
from callability.gateway.policy_client.policy_client import PolicyClient
from callability.gateway.runtime.label_check import LabelCheck

CALL_SECONDS = 5.0
"""How long a call to a service takes at most, with both attempts."""


@dataclass(frozen=True, slots=True)
class PolicyConnection:
    """What asks the policy, and the check of the config's labels against that policy."""

    policy: PolicyClient
    labels: LabelCheck


@asynccontextmanager
async def connect_in_process(own: OwnPolicy, metrics: Metrics) -> AsyncIterator[PolicyConnection]:
    """Yield the policy in this process; after an edit of it the labels are checked again at once."""
    async with own.client as client:
        policy = PolicyClient(client)
        labels = LabelCheck(policy, metrics)
        own.replaced = labels.look
        yield PolicyConnection(policy, labels)


@asynccontextmanager
async def connect_to_service(service: PolicyService, metrics: Metrics) -> AsyncIterator[PolicyConnection]:
    """Yield a connection to a service; after an answer of another revision the labels are checked again."""
    async with service.client(CALL_SECONDS) as client:
        policy = PolicyClient(client)
        labels = LabelCheck(policy, metrics)
        policy.answered = labels.answered
        yield PolicyConnection(policy, labels)
