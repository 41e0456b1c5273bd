"""A stub of the policy service whose answers say which revision of the policy decides."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from callability.gateway.tools.decisions import CallabilityStub


class Revisions:
    """Calls a stub, and tells the revision of each answer."""

    def __init__(self, stub: CallabilityStub, told: Callable[[str], None]) -> None:
        self.CheckTool = _telling(stub.CheckTool, told)
        self.CheckTools = _telling(stub.CheckTools, told)
        self.ClassifyLoad = _telling(stub.ClassifyLoad, told)
        self.ClassifyEnable = _telling(stub.ClassifyEnable, told)


def _telling(method: Callable[..., Awaitable[Any]], told: Callable[[str], None]) -> Callable[..., Awaitable[Any]]:
    async def call(request: Any, timeout: float | None = None) -> Any:  # noqa: ASYNC109  # as a stub has it
        response = await method(request, timeout=timeout)
        told(response.revision)
        return response

    return call
