"""Health as `grpc.health.v1` defines it, behind the edge of the service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import grpc
from grpc_health.v1 import health, health_pb2

from callability.kernel.calls import parsed
from callability.kernel.limits import InvalidRequest
from callability.service.transport.edge import Ended, abort, refusal
from callability.service.transport.reading import Reading
from callability.service.transport.received import at_most, checked

if TYPE_CHECKING:
    from callability.service.transport.edge import Context, Handler

SERVICE = health.SERVICE_NAME
_REQUEST_BYTES = 4_096
CHECK = f"/{SERVICE}/Check"
_WATCH = f"/{SERVICE}/Watch"


class Health:
    """Whether services answer calls."""

    def __init__(self, reading: Reading, ended: Ended) -> None:
        self._servicer: Any = health.aio.HealthServicer()
        self._reading = reading
        self._received = at_most(_REQUEST_BYTES, ended)

    async def serving(self, *services: str) -> None:
        """Report services as SERVING."""
        for service in services:
            await self._servicer.set(service, health_pb2.HealthCheckResponse.SERVING)

    async def stopping(self) -> None:
        """Report every service as NOT_SERVING from now on."""
        await self._servicer.enter_graceful_shutdown()

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """What answers each method, by its path."""
        written = health_pb2.HealthCheckResponse.SerializeToString
        return {
            CHECK: grpc.stream_unary_rpc_method_handler(self._check, self._received, written),
            _WATCH: grpc.stream_stream_rpc_method_handler(self._watch, self._received, written),
        }

    async def _check(self, _requests: object, context: Context) -> health_pb2.HealthCheckResponse:
        reply: health_pb2.HealthCheckResponse = await self._servicer.Check(await self._request(CHECK, context), context)
        return reply

    async def _watch(self, _requests: object, context: Context) -> None:
        await self._servicer.Watch(await self._request(_WATCH, context), context)

    async def _request(self, path: str, context: Context) -> health_pb2.HealthCheckRequest:
        request = await self._reading.request(path, context, context.peer())
        try:
            return parsed(health_pb2.HealthCheckRequest, checked(request))
        except InvalidRequest as error:
            await abort(context, refusal(error))
