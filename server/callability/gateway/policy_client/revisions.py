"""A stub of the policy service that reports the policy revision of each answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from callability.gateway.policy_client.stub import CallabilityStub


class Revisions:
    """Calls another stub, and reports the revision of each of its answers."""

    def __init__(self, stub: CallabilityStub, report: Callable[[str], None]) -> None:
        self.CheckTool = _reporting(stub.CheckTool, report)
        self.CheckTools = _reporting(stub.CheckTools, report)
        self.ExplainTool = _reporting(stub.ExplainTool, report)
        self.ClassifyLoad = _reporting(stub.ClassifyLoad, report)
        self.ClassifyEnable = _reporting(stub.ClassifyEnable, report)


def _reporting(method: Callable[..., Awaitable[Any]], report: Callable[[str], None]) -> Callable[..., Awaitable[Any]]:
    async def call(request: Any, timeout: float | None = None) -> Any:  # noqa: ASYNC109  # as a stub has it
        response = await method(request, timeout=timeout)
        report(response.revision)
        return response

    return call
