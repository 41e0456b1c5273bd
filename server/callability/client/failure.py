"""The errors of a client: no answer, and a request that is refused."""

from __future__ import annotations

import grpc


class PolicyUnavailable(Exception):
    """The policy gave no answer. That is not a status, and nothing may be called (A.7).

    The text is safe to pass to `adapter.unavailable`. `code` is the name of the gRPC code of the last attempt, such as
    `UNAVAILABLE` or `DEADLINE_EXCEEDED`. `details` are what the transport said, for the log of the proxy: they may name
    an address.
    """

    def __init__(self, reason: str, code: str, details: str = "") -> None:
        super().__init__(reason)
        self.code = code
        self.details = details


class InvalidRequest(ValueError):
    """The policy refuses a request as invalid: it is malformed or over a limit. A retry cannot help."""


class ClientClosed(RuntimeError):
    """A call of a client that was closed."""


FINAL = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.UNIMPLEMENTED,
    }
)
"""The codes after which no other replica is asked: it would give the same answer."""


def no_answer(code: grpc.StatusCode, details: str) -> PolicyUnavailable | InvalidRequest:
    """Return the error for a call that ended with a code other than OK."""
    if code is grpc.StatusCode.INVALID_ARGUMENT:
        return InvalidRequest(details)
    return PolicyUnavailable(f"the policy service gave no answer ({code.name})", code.name, details)
