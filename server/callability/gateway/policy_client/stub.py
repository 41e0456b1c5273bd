"""The calls of the policy service that the gateway makes, as protocols of stubs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from callability.v1 import callability_service_pb2 as pb
from callability.v1.policy_service_pb2 import GetPolicyResponse


class LoadStub(Protocol):
    """The calls of the policy service that loading needs."""

    @property
    def ClassifyLoad(self) -> Callable[..., Awaitable[pb.ClassifyLoadResponse]]:  # noqa: N802  # the contract's name
        """Classify one failure to load."""


class CallabilityStub(LoadStub, Protocol):
    """What a gateway needs: the generated stub on an aio channel, or a stand-in in the same process."""

    @property
    def CheckTool(self) -> Callable[..., Awaitable[pb.CheckToolResponse]]:  # noqa: N802  # the contract's name
        """Decide one tool."""

    @property
    def CheckTools(self) -> Callable[..., Awaitable[pb.CheckToolsResponse]]:  # noqa: N802  # the contract's name
        """Decide many tools."""

    @property
    def ExplainTool(self) -> Callable[..., Awaitable[pb.ExplainToolResponse]]:  # noqa: N802  # the contract's name
        """Explain the decision about one tool."""

    @property
    def ClassifyEnable(self) -> Callable[..., Awaitable[pb.ClassifyEnableResponse]]:  # noqa: N802  # the contract's name
        """Classify one enable."""


class PolicyStub(Protocol):
    """What the comparison of labels needs from the other service, `PolicyService`."""

    @property
    def GetPolicy(self) -> Callable[..., Awaitable[GetPolicyResponse]]:  # noqa: N802  # the contract's name
        """Return the policy that decides."""
