"""Makes one call to the policy service: its deadline, and the one form of its errors."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

import grpc

from callability.client import PolicyUnavailable

POLICY_SECONDS = 5.0
"""The deadline of a call."""
_Response = TypeVar("_Response")
_logger = logging.getLogger(__name__)


async def call_policy(
    method: Callable[..., Awaitable[_Response]],
    request: object,
    *,
    about: str,
    seconds: float = POLICY_SECONDS,
    if_invalid: _Response | None = None,
) -> _Response:
    """Return the answer of a stub's method to a request.

    Args:
        method: the method of the stub.
        request: the request.
        about: what the request is about, for the log.
        seconds: the deadline.
        if_invalid: what to return for a request that the service calls invalid; None: that is an error like others.

    Raises:
        PolicyUnavailable: there is no answer; the log says so.
    """
    try:
        return await method(request, timeout=seconds)
    except (grpc.RpcError, grpc.aio.UsageError) as error:
        code, details = type(error).__name__, str(error)
        if isinstance(error, grpc.aio.AioRpcError):
            code, details = error.code().name, error.details() or ""
            if if_invalid is not None and error.code() is grpc.StatusCode.INVALID_ARGUMENT:
                return if_invalid
        _logger.error("the policy service gave no answer about %s: %s, %s", about, code, details)  # noqa: TRY400  # its code says enough
        raise PolicyUnavailable(f"the policy service gave no answer ({code})", code) from error
