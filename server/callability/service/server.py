"""The gRPC server: the calls of the contract, health and reflection, on loopback or a Unix socket."""

from __future__ import annotations

import logging
import socket
import stat
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path

import grpc
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from grpc_status import rpc_status

from callability.address import AddressRefused, check_loopback
from callability.policy.loading import Policy
from callability.service.errors import InternalError, ServiceError
from callability.service.limits import MESSAGE_BYTES
from callability.service.metrics import PolicyMetrics
from callability.service.policy_calls import PolicyCalls
from callability.service.served import Served
from callability.v1 import callability_service_pb2, policy_service_pb2

CALLABILITY = callability_service_pb2.DESCRIPTOR.services_by_name["CallabilityService"].full_name
POLICY = policy_service_pb2.DESCRIPTOR.services_by_name["PolicyService"].full_name
DOMAIN = "callability.v1"
GRACE = 5.0
"""Seconds that calls in flight have when the server stops."""

_OPTIONS = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES),
    ("grpc.max_send_message_length", -1),
    # Two servers on one port would share its calls without a word.
    ("grpc.so_reuseport", 0),
)
_log = logging.getLogger(__name__)


class Server:
    """A server on one address: of a policy until `served` is given another."""

    def __init__(self, policy: Policy, address: str, metrics: PolicyMetrics | None = None) -> None:
        _check_address(address)
        self._server = grpc.aio.server(options=_OPTIONS)
        self.served = Served(policy, metrics)
        about_policy = PolicyCalls(self.served)
        self._add(CALLABILITY, self.served.answers)
        self._add(POLICY, {"GetPolicy": about_policy.get_policy, "ValidatePolicy": about_policy.validate_policy})
        self._health = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        names = (CALLABILITY, POLICY, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, self._server)
        try:
            port = self._server.add_insecure_port(address)
        except RuntimeError:
            raise AddressRefused(
                f"`{address}` cannot be listened on: it is in use, or is no address of this machine"
            ) from None
        self.address = address if address.startswith("unix:") else f"{address.rpartition(':')[0]}:{port}"

    async def start(self) -> None:
        """Begin to answer; a policy is only ever served proved, so that health is SERVING from the start."""
        await self._server.start()
        for name in ("", CALLABILITY, POLICY):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)

    async def stop(self) -> None:
        """Say NOT_SERVING, let calls in flight end for `GRACE` seconds, and close."""
        await self._health.enter_graceful_shutdown()
        await self._server.stop(GRACE)

    async def wait(self) -> None:
        """Wait until the server has stopped."""
        await self._server.wait_for_termination()

    def _add(self, service: str, methods: Mapping[str, Callable[[bytes], Awaitable[bytes]]]) -> None:
        handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
            name: grpc.unary_unary_rpc_method_handler(_at_the_edge(method)) for name, method in methods.items()
        }
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
        self._server.add_registered_method_handlers(service, handlers)


def _at_the_edge(
    method: Callable[[bytes], Awaitable[bytes]],
) -> Callable[[bytes, grpc.aio.ServicerContext[bytes, bytes]], Awaitable[bytes]]:
    async def handle(request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        try:
            return await method(request)
        except Exception as error:
            if not isinstance(error, ServiceError):
                _log.exception("a call failed")
                error = InternalError()
            await context.abort(error.code, error.message, _details(error))

    return handle


def _details(error: ServiceError) -> tuple[tuple[str, str | bytes], ...]:
    info = any_pb2.Any()
    info.Pack(error_details_pb2.ErrorInfo(reason=error.reason, domain=DOMAIN))
    status = status_pb2.Status(code=error.code.value[0], message=error.message, details=[info])
    return tuple(rpc_status.to_status(status).trailing_metadata or ())


def _check_address(address: str) -> None:
    """Refuse an address that is not loopback, and a socket file that is somebody's."""
    if address.startswith("unix:"):
        _check_socket(Path(address.removeprefix("unix:")))
    else:
        check_loopback(address, "the service has no authentication yet, so that anybody who reaches it could ask")


def _check_socket(path: Path) -> None:
    if set(str(path)) & set("?#%"):
        raise AddressRefused(f"`{path}` holds a character that the path of a socket may not hold here: `?`, `#` or `%`")
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise AddressRefused(f"`{path}` cannot be listened on: {(error.strerror or 'error').lower()}") from error
    if not stat.S_ISSOCK(mode):
        raise AddressRefused(f"`{path}` is a file that is not a socket")
    with socket.socket(socket.AF_UNIX) as probe, suppress(OSError):
        probe.settimeout(1)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return
    raise AddressRefused(f"`{path}` is listened on by another process")
