"""How a gateway connects to a policy: in its own process, or by a service at an address."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import grpc

from callability.adapter import DeclaredInputs, NotPublished
from callability.command_line.policy_service import PolicyService
from callability.gateway.observability.metrics import Metrics
from callability.gateway.policy_client.revisions import Revisions
from callability.gateway.policy_client.stub import CallabilityStub
from callability.gateway.runtime.label_check import GET_SECONDS, LabelCheck
from callability.policy.loading import Policy
from callability.service.in_process import InProcessPolicyStub, InProcessStub
from callability.service.observability.metrics import PolicyMetrics
from callability.service.translation.messages import policy_message
from callability.v1.callability_service_pb2_grpc import CallabilityServiceStub
from callability.v1.policy_service_pb2 import GetPolicyRequest
from callability.v1.policy_service_pb2_grpc import PolicyServiceStub


@dataclass(frozen=True, slots=True)
class PolicyConnection:
    """A stub of the policy service, and the check of the config's labels against that policy."""

    stub: CallabilityStub
    labels: LabelCheck


@asynccontextmanager
async def connect_in_process(
    policy: Policy, policy_metrics: PolicyMetrics, metrics: Metrics
) -> AsyncIterator[PolicyConnection]:
    """Yield the policy in this process; after an edit of it the labels are checked again at once."""
    stub = InProcessStub(policy, policy_metrics)
    labels = LabelCheck(InProcessPolicyStub(stub.served), metrics)
    stub.served.on_replace = labels.look
    yield PolicyConnection(stub, labels)


@asynccontextmanager
async def connect_to_service(service: PolicyService, metrics: Metrics) -> AsyncIterator[PolicyConnection]:
    """Yield a connection to a service; after an answer of another revision the labels are checked again."""
    async with _channel(service) as channel:
        labels = LabelCheck(PolicyServiceStub(channel), metrics)
        yield PolicyConnection(Revisions(CallabilityServiceStub(channel), labels.answered), labels)


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
        async with _channel(service) as channel:
            stub = PolicyServiceStub(channel)
            return DeclaredInputs.of(await stub.GetPolicy(GetPolicyRequest(), timeout=GET_SECONDS))

    try:
        return asyncio.run(ask())
    except grpc.aio.AioRpcError as error:
        raise NoAnswer(error.code().name) from error
    except NotPublished:
        return None


def _channel(service: PolicyService) -> grpc.aio.Channel:
    # The answer about 20,000 tools may have more than the 4 MiB that gRPC accepts by default.
    return service.channel(("grpc.max_receive_message_length", -1), ("grpc.max_reconnect_backoff_ms", 1_000))
