"""The calls of the service without a socket, for tests of what it answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from google.protobuf.message import Message
from grpc import StatusCode
from grpc.aio import AioRpcError, Metadata

from callability.compiler.bundle_writing import checked_policy
from callability.compiler.policy import Policy
from callability.kernel.limits import InvalidRequest
from callability.service.callers import ServiceError
from callability.service.calls import PolicyCalls, ServedPolicy
from callability.service.metrics import PolicyMetrics
from callability.v1 import callability_service_pb2 as pb
from callability.v1.policy_service_pb2 import GetPolicyResponse

Response = TypeVar("Response", bound=Message)


class ServiceStub:
    """Has the calls of `CallabilityServiceStub` on an aio channel, and fails as they do."""

    def __init__(self, policy: Policy, metrics: PolicyMetrics | None = None) -> None:
        self.served = ServedPolicy(checked_policy(policy), metrics)
        answers = self.served.answers
        self.CheckTool = _call(answers["CheckTool"], pb.CheckToolResponse)
        self.CheckTools = _call(answers["CheckTools"], pb.CheckToolsResponse)
        self.ExplainTool = _call(answers["ExplainTool"], pb.ExplainToolResponse)
        self.ClassifyLoad = _call(answers["ClassifyLoad"], pb.ClassifyLoadResponse)
        self.ClassifyEnable = _call(answers["ClassifyEnable"], pb.ClassifyEnableResponse)


class PolicyServiceStub:
    """Has `GetPolicy` of `PolicyServiceStub` on an aio channel, about the policy of a stub in this process."""

    def __init__(self, served: ServedPolicy) -> None:
        self.GetPolicy = _call(PolicyCalls(served).get_policy, GetPolicyResponse)


def _call(method: Callable[[bytes], Awaitable[bytes]], response: type[Response]) -> Callable[..., Awaitable[Response]]:
    async def call(request: Message, timeout: float | None = None) -> Response:  # noqa: ASYNC109  # as a stub has it
        try:
            return response.FromString(await method(request.SerializeToString()))
        except InvalidRequest as error:
            raise AioRpcError(StatusCode.INVALID_ARGUMENT, Metadata(), Metadata(), error.message) from error
        except ServiceError as error:
            raise AioRpcError(error.code, Metadata(), Metadata(), error.message) from error

    return call
