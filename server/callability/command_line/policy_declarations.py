"""What a policy declares, in this process or at a service: what a config is compared with."""

from __future__ import annotations

import asyncio

from callability.adapter import DeclaredInputs, NotPublished
from callability.client import PolicyUnavailable
from callability.command_line.policy_service import PolicyService
from callability.gateway.policy_client.policy_client import GET_SECONDS
from callability.kernel.description import description
from callability.kernel.policy import read


def declared_by(bundle: bytes) -> DeclaredInputs:
    """Return the labels and facts that the policy in a bundle declares."""
    return DeclaredInputs.of(description(read(bundle)))


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
