"""The edge of the service: bytes come in, bytes go out, and every error becomes a gRPC status with a stable reason."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import grpc
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from callability import request_context
from callability.kernel.limits import InvalidRequest
from callability.request_context import REQUEST_ID
from callability.service.observability.call_metrics import MethodCalls
from callability.service.requests.errors import InternalError, ServiceError, ShuttingDown
from callability.service.transport.places import Places
from callability.service.transport.received import at_most, checked, size_of

DOMAIN = "callability.v1"
if TYPE_CHECKING:
    from callability.service.transport.reading import Reading

    Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]
    Handler: TypeAlias = grpc.RpcMethodHandler[Any, Any]
Method = Callable[[bytes], Awaitable[bytes]]
Answer = Callable[[bytes, str], Awaitable[bytes]]
"""What replies to a request of a connection."""
Ended = Callable[[int], object]
"""Called with the size of a request when it is needed no longer."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Refusal:
    """How a refused call ends. It holds no reference to the call, because gRPC keeps it for a while."""

    code: grpc.StatusCode
    reason: str
    message: str
    trailing_metadata: tuple[tuple[str, str | bytes], ...]


def unary(
    answer: Answer,
    path: str,
    request_bytes: int,
    reading: Reading,
    places: Places,
    ended: Ended,
    calls: MethodCalls,
    is_cutting: Callable[[], bool],
) -> Handler:
    """Return the handler of a call with one request, of at most so many bytes, and one reply; `calls` counts it.

    `is_cutting` says whether the service itself ends the calls that are left.
    """

    async def handle(_requests: object, context: Context) -> bytes:
        connection = context.peer()
        context.set_trailing_metadata(_request_id())
        request = await reading.request(path, context, connection)
        started = perf_counter()
        count, given_up = calls.refused, False
        try:
            places.take(connection)
            count = calls.ended
            try:
                reply = await answer(checked(request), connection)
                calls.answered(perf_counter() - started)
                return reply
            finally:
                places.give_back(connection)
        except asyncio.CancelledError:
            # The server ends what is left when its grace time is over. Otherwise the client has cancelled the call, or
            # its deadline is over: then nobody reads the status.
            refused, given_up = refusal(ShuttingDown()), not is_cutting()
        except Exception as error:
            refused = refusal(error)
        finally:
            reading.done(connection, size_of(request))
            ended(size_of(request))
        # The exception that `abort` raises stays in a cycle of references, and this frame with it.
        del request
        code, reason = ("CANCELLED", "") if given_up else (refused.code.name, refused.reason)
        count(code, perf_counter() - started, reason)
        return await abort(context, refused)

    return grpc.stream_unary_rpc_method_handler(handle, at_most(request_bytes, ended))


def conversing(method: Method, path: str, request_bytes: int, reading: Reading, ended: Ended) -> Handler:
    """Return the handler of a call in which each request of a stream, of at most so many bytes, has one reply."""

    async def handle(_requests: object, context: Context) -> AsyncIterator[bytes]:
        connection = context.peer()
        while (request := await reading.request(path, context, connection)) is not None:
            try:
                reply = await method(checked(request))
            except Exception as error:
                refused = refusal(error)
                break
            yield reply
        else:
            return
        await abort(context, refused)

    return grpc.stream_stream_rpc_method_handler(handle, at_most(request_bytes, ended))


def streaming(
    follow: Callable[[bytes], AsyncIterator[bytes]], path: str, request_bytes: int, reading: Reading, ended: Ended
) -> Handler:
    """Return the handler of a call with one request, of at most so many bytes, and replies without an end."""

    async def handle(_requests: object, context: Context) -> AsyncIterator[bytes]:
        context.set_trailing_metadata(_request_id())
        request = await reading.request(path, context, context.peer())
        try:
            async for reply in follow(checked(request)):
                yield reply
        except asyncio.CancelledError:
            refused = refusal(ShuttingDown())
        except Exception as error:
            refused = refusal(error)
        await abort(context, refused)

    return grpc.stream_stream_rpc_method_handler(handle, at_most(request_bytes, ended))


def refusing(error: ServiceError) -> Handler:
    """Return the handler that refuses any call at once, without waiting for its request."""
    refused = refusal(error)

    async def handle(_requests: AsyncIterator[bytes], context: Context) -> bytes:
        await abort(context, refused)

    return grpc.stream_unary_rpc_method_handler(handle)


def refusal(error: Exception) -> Refusal:
    """Return how a call ends with an error. A fault of the service is logged, and its caller learns no more."""
    if not isinstance(error, ServiceError | InvalidRequest):
        _log.error("a call failed", exc_info=error)
        error = InternalError()
    code = grpc.StatusCode.INVALID_ARGUMENT if isinstance(error, InvalidRequest) else error.code
    info = any_pb2.Any()
    info.Pack(error_details_pb2.ErrorInfo(reason=error.reason, domain=DOMAIN))
    status = status_pb2.Status(code=code.value[0], message=error.message, details=[info])
    return Refusal(code, error.reason, error.message, tuple(rpc_status.to_status(status).trailing_metadata or ()))


async def abort(context: Context, refused: Refusal) -> NoReturn:
    """End a call."""
    await context.abort(refused.code, refused.message, (*refused.trailing_metadata, *_request_id()))


def _request_id() -> tuple[tuple[str, str], ...]:
    """Return the trailing metadata with the id of the current request."""
    request = request_context.current()
    return () if request is None else ((REQUEST_ID, request.request_id),)
