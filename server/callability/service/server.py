"""The gRPC server: the calls of the contract, health and reflection, on loopback or a Unix socket."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import grpc

from callability.address import AddressRefused, check_free, check_loopback, check_socket_path, socket_path
from callability.policy.loading import Policy
from callability.service.calls.policy_calls import PolicyCalls
from callability.service.calls.served_policy import ServedPolicy
from callability.service.memory import LargeRequests
from callability.service.observability.metrics import PolicyMetrics
from callability.service.requests import limits
from callability.service.requests.request_size import REQUEST_BYTES
from callability.service.transport import health
from callability.service.transport.admission import Admission
from callability.service.transport.edge import Answer, Method, unary
from callability.service.transport.health import Health
from callability.service.transport.places import Places
from callability.service.transport.reflection import Reflection
from callability.service.transport.turns import Turns
from callability.v1 import callability_service_pb2, policy_service_pb2

CALLABILITY = callability_service_pb2.DESCRIPTOR.services_by_name["CallabilityService"].full_name
POLICY = policy_service_pb2.DESCRIPTOR.services_by_name["PolicyService"].full_name
GRACE = 5.0
"""Seconds that calls in flight have when the server stops."""

_AT_ONCE_BYTES = 1_024
"""Bytes of a request that takes less time to decide than to arrive."""
_SLOW = "ExplainTool"
"""The method that takes longer, however small its request is."""
_OPTIONS = (
    ("grpc.max_receive_message_length", limits.MESSAGE_BYTES),
    ("grpc.max_send_message_length", -1),
    # Two servers on one port would share its calls without a word.
    ("grpc.so_reuseport", 0),
    # gRPC cancels the calls that wait beyond these numbers; `Admission` says why it refuses one.
    ("grpc.server.max_pending_requests", 2**31 - 1),
    ("grpc.server.max_pending_requests_hard_limit", 2**31 - 1),
)


class Server:
    """A server on one address: of a policy until `served` is given another."""

    def __init__(
        self,
        policy: Policy,
        address: str,
        metrics: PolicyMetrics | None = None,
        concurrent_calls: int = limits.CONCURRENT_CALLS,
    ) -> None:
        _check_address(address)
        self.served = ServedPolicy(policy, metrics)
        about_policy = PolicyCalls(self.served, concurrent_calls)
        places, turns, large = Places(concurrent_calls), Turns(), LargeRequests()
        methods: Mapping[str, Mapping[str, Answer]] = {
            CALLABILITY: {
                name: turns.answer(method, places, 0 if name == _SLOW else _AT_ONCE_BYTES)
                for name, method in self.served.answers.items()
            },
            POLICY: {"GetPolicy": _any(about_policy.get_policy), "ValidatePolicy": _any(about_policy.validate_policy)},
        }
        self._health = Health()
        handlers = {
            **{
                f"/{service}/{name}": unary(answer, REQUEST_BYTES[f"{service}/{name}"], places, large.ended)
                for service, named in methods.items()
                for name, answer in named.items()
            },
            **self._health.handlers,
            **Reflection((CALLABILITY, POLICY, health.SERVICE)).handlers,
        }
        self._admission = Admission(handlers, places, turns, concurrent_calls, {health.CHECK})
        streams = ("grpc.max_concurrent_streams", max(limits.CONNECTION_STREAMS, 3 * concurrent_calls))
        self._server = grpc.aio.server(handlers=(self._admission,), options=(*_OPTIONS, streams))
        try:
            port = self._server.add_insecure_port(address)
        except RuntimeError:
            raise AddressRefused(f"`{address}` cannot be listened on") from None
        self.address = address if address.startswith("unix:") else f"{address.rpartition(':')[0]}:{port}"

    async def start(self) -> None:
        """Begin to answer; a policy is only ever served proved, so that health is SERVING from the start."""
        await self._server.start()
        await self._health.serving("", CALLABILITY, POLICY)

    async def drain(self) -> None:
        """Report NOT_SERVING, and wait until the calls that have arrived have ended, for at most `GRACE` seconds.

        Calls that arrive later are refused. The connections stay open meanwhile: gRPC's own shutdown would cancel the
        calls that come in while it closes them. If the process ends after this, callers see UNAVAILABLE instead.
        """
        await self._health.stopping()
        await self._admission.close(self.address, GRACE)
        if self.address.startswith("unix:"):
            socket_path(self.address).unlink(missing_ok=True)

    async def stop(self) -> None:
        """Drain, and close."""
        await self.drain()
        await self._server.stop(None)


def _any(method: Method) -> Answer:
    """Return what replies by a method, whichever connection asks."""

    async def answer(request: bytes, _connection: str) -> bytes:
        return await method(request)

    return answer


def _check_address(address: str) -> None:
    """Refuse an address that is not loopback, and a socket file that is somebody's."""
    if address.startswith("unix:"):
        _check_socket(socket_path(address))
    else:
        check_loopback(address, "the service has no authentication yet, so that anybody who reaches it could ask")
        check_free(address)


def _check_socket(path: Path) -> None:
    if set(str(path)) & set("?#%"):
        raise AddressRefused(
            f"`{path}` contains a character that is not allowed in the path of a socket here: `?`, `#` or `%`"
        )
    check_socket_path(path)
    if not os.access(path.parent, os.W_OK | os.X_OK):
        reason = "permission denied" if path.parent.is_dir() else "no such directory"
        raise AddressRefused(f"`{path}` cannot be listened on: {reason}")
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
