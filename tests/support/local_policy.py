"""A policy that decides in the process of the tests, as it does in a gateway."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from callability.cli.own_policy import GivenPolicy
from callability.client import Client
from callability.compiler.bundle_writing import payload_of
from callability.compiler.confirmation import Engine
from callability.compiler.policy import load
from callability.gateway.policy_client import PolicyClient
from callability.kernel.envelope import envelop
from support.checkout import POLICY


@cache
def local_client(policy: Path = POLICY) -> Client:
    """Return a client that decides by a policy, the shipped one by default."""
    given = GivenPolicy()
    assert given.give(envelop(payload_of(load(policy, engine=Engine.REFERENCE))))
    return given.client


def local_policy(policy: Path = POLICY) -> PolicyClient:
    """Return what a gateway asks: a policy in this process, the shipped one by default."""
    return PolicyClient(local_client(policy))
