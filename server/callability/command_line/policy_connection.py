"""How a gateway connects to a policy: in its own process, or by a service at an address."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from callability.adapter import DeclaredInputs, NotPublished
from callability.client import PolicyUnavailable
from callability.command_line.own_policy import OwnPolicy
from callability.command_line.policy_service import PolicyService
from callability.gateway.observability.metrics import Metrics
from callability.gateway.policy_client.policy_client import PolicyClient
from callability.gateway.runtime.label_check import GET_SECONDS, LabelCheck
from callability.policy.loading import Policy
from callability.service.translation.messages import policy_message

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


def declared_by(policy: Policy) -> DeclaredInputs:
    """Return the labels and facts that a policy declares."""
    return DeclaredInputs.of(policy_message(policy))


class NoAnswer(Exception):
    """No policy service answers at an address; the text says why."""


def declared_at(service: PolicyService) -> DeclaredInputs | None:
    """Return what the policy of a service declares; None if the service does not say.

    Raises:
        NoAnswer: no service answers at the address.
    """

    async def ask() -> DeclaredInputs:
        async with service.client(GET_SECONDS) as client:
            return DeclaredInputs.of(await client.get_policy())

    try:
        return asyncio.run(ask())
    except PolicyUnavailable as error:
        raise NoAnswer(error.code) from error
    except NotPublished:
        return None
