"""What a request can be refused for.

InvalidRequest, InvalidName (of the kernel) are INVALID_ARGUMENT: the whole request, or, in a batch, the item.

ServiceError            a gRPC code, a stable reason and a sentence
├── Unauthenticated     UNAUTHENTICATED: the service does not know who calls
├── NotPermitted        PERMISSION_DENIED: the caller has no right to the call
├── TooManyAtOnce       RESOURCE_EXHAUSTED: the service already does as much as it may at a time
├── ShuttingDown        UNAVAILABLE: the service is being stopped
└── InternalError       INTERNAL: a fault of the service; what went wrong is in its log only
"""

from __future__ import annotations

import grpc


class ServiceError(Exception):
    """An error that the service answers with: `code` is gRPC's, `reason` a stable name in upper case."""

    code = grpc.StatusCode.UNKNOWN

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class Unauthenticated(ServiceError):
    """The caller has to send credentials that the service knows."""

    code = grpc.StatusCode.UNAUTHENTICATED


class NotPermitted(ServiceError):
    """The operator has to grant the caller a right."""

    code = grpc.StatusCode.PERMISSION_DENIED


class TooManyAtOnce(ServiceError):
    """The caller has to wait until others have been answered."""

    code = grpc.StatusCode.RESOURCE_EXHAUSTED


class ShuttingDown(ServiceError):
    """The caller has to ask another instance, or this one again after its restart."""

    code = grpc.StatusCode.UNAVAILABLE

    def __init__(self) -> None:
        super().__init__("SHUTTING_DOWN", "the service is shutting down")


class InternalError(ServiceError):
    """The service failed; the caller can do nothing about it."""

    code = grpc.StatusCode.INTERNAL

    def __init__(self) -> None:
        super().__init__("INTERNAL", "the service failed; its log says why")
