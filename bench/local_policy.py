"""The shipped policy in the process of a gateway, as it decides there by default."""

from __future__ import annotations

from callability.cli.own_policy import GivenPolicy
from callability.compiler.bundle_writing import checked_payload
from callability.compiler.policy import load
from callability.files.shipped_policy import shipped_policy
from callability.gateway.policy_client import PolicyClient
from callability.kernel.envelope import envelop


def local_policy() -> PolicyClient:
    """Return what a gateway asks.

    Raises:
        RuntimeError: the bundle of the policy is refused.
    """
    given = GivenPolicy()
    directory = shipped_policy()
    if not given.give(envelop(checked_payload(load(directory), str(directory)))):
        raise RuntimeError("the bundle of the shipped policy is refused")
    return PolicyClient(given.client)
