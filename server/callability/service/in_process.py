"""The service for a caller in the same process: the calls of a stub, without a socket."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from google.protobuf.message import Message
from grpc.aio import AioRpcError, Metadata

from callability.policy.loading import Policy
from callability.service.calls import Calls
from callability.service.errors import ServiceError
from callability.v1 import callability_service_pb2 as pb

Response = TypeVar("Response", bound=Message)


class InProcessStub:
    """Has the calls of `CallabilityServiceStub` on an aio channel, and fails as they do."""

    def __init__(self, policy: Policy) -> None:
        calls = Calls(policy)
        self.CheckTool = _call(calls.check_tool, pb.CheckToolResponse)
        self.CheckTools = _call(calls.check_tools, pb.CheckToolsResponse)
        self.ExplainTool = _call(calls.explain_tool, pb.ExplainToolResponse)
        self.ClassifyLoad = _call(calls.classify_load, pb.ClassifyLoadResponse)
        self.ClassifyEnable = _call(calls.classify_enable, pb.ClassifyEnableResponse)


def _call(method: Callable[[bytes], Awaitable[bytes]], response: type[Response]) -> Callable[..., Awaitable[Response]]:
    async def call(request: Message, timeout: float | None = None) -> Response:  # noqa: ASYNC109  # as a stub has it
        try:
            return response.FromString(await method(request.SerializeToString()))
        except ServiceError as error:
            raise AioRpcError(error.code, Metadata(), Metadata(), error.message) from error

    return call
