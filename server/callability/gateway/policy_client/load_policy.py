"""The call of the policy that loading needs, by a client or by a generated stub."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, runtime_checkable

import grpc

from callability.gateway.policy_client.policy_client import no_answer
from callability.v1 import callability_service_pb2 as pb

POLICY_SECONDS = 5.0
"""The deadline of a call of a stub."""


@runtime_checkable
class LoadPolicy(Protocol):
    """What classifies failures to load: a `callability.client.Client` does."""

    async def classify_load(self, request: pb.ClassifyLoadRequest) -> pb.ClassifyLoadResponse:
        """Classify one failure to load.

        Raises:
            PolicyUnavailable: there is no answer.
        """


class LoadStub(Protocol):
    """The calls of the policy service that loading needs."""

    @property
    def ClassifyLoad(self) -> Callable[..., Awaitable[pb.ClassifyLoadResponse]]:  # noqa: N802  # the contract's name
        """Classify one failure to load."""


def load_policy(given: LoadPolicy | LoadStub) -> LoadPolicy:
    """Return what classifies failures to load, for a client or for a stub of `CallabilityService` on an aio channel."""
    return given if isinstance(given, LoadPolicy) else _OfStub(given)


class _OfStub:
    """Asks by a stub."""

    def __init__(self, stub: LoadStub) -> None:
        self._stub = stub

    async def classify_load(self, request: pb.ClassifyLoadRequest) -> pb.ClassifyLoadResponse:
        """Classify one failure to load.

        Raises:
            PolicyUnavailable: there is no answer; the log says so.
        """
        try:
            return await self._stub.ClassifyLoad(request, timeout=POLICY_SECONDS)
        except (grpc.RpcError, grpc.aio.UsageError) as error:
            code, details = type(error).__name__, str(error)
            if isinstance(error, grpc.aio.AioRpcError):
                code, details = error.code().name, error.details() or ""
            raise no_answer("a load", code, details) from error
