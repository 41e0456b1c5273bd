"""The gRPC server: the calls of the contract, health and reflection, on one port."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

import grpc

from callability.address import socket_path
from callability.kernel import limits
from callability.kernel.checked_policy import CheckedPolicy
from callability.kernel.request_size import REQUEST_BYTES
from callability.service.callers.watched_callers import WatchedCallers
from callability.service.calls.policy_calls import PolicyCalls
from callability.service.calls.policy_watches import PolicyWatches
from callability.service.calls.served_policy import ServedPolicy
from callability.service.memory import LargeRequests
from callability.service.observability.call_metrics import CallMetrics
from callability.service.observability.metrics import PolicyMetrics
from callability.service.transport import health
from callability.service.transport.admission import Admission
from callability.service.transport.connections import most_connections
from callability.service.transport.edge import Answer, Method, streaming, unary
from callability.service.transport.guard import Guard
from callability.service.transport.health import Health
from callability.service.transport.places import Places
from callability.service.transport.port import Port
from callability.service.transport.reading import Reading
from callability.service.transport.reflection import Reflection
from callability.service.transport.streams import Streams
from callability.service.transport.turns import Turns
from callability.v1 import callability_service_pb2, policy_service_pb2

CALLABILITY = callability_service_pb2.DESCRIPTOR.services_by_name["CallabilityService"].full_name
POLICY = policy_service_pb2.DESCRIPTOR.services_by_name["PolicyService"].full_name
_WATCH = f"/{POLICY}/WatchPolicy"
GRACE = 5.0
"""Seconds that calls in flight have when the server stops."""

_AT_ONCE_BYTES = 1_024
"""Bytes of a request that takes less time to decide than to arrive."""
_SLOW = "ExplainTool"
"""The method that takes longer, however small its request is."""
_IN_BULK = ("CheckTools", "ValidatePolicy")
"""The methods whose requests may be large, and which are read apart from others, so that those need not wait."""
_OPTIONS = (
    ("grpc.max_receive_message_length", limits.MESSAGE_BYTES),
    # What waits to be read takes no more than this; by default, gRPC lets in as much as a fast connection sends.
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", 65_536),
    ("grpc.max_send_message_length", -1),
    # gRPC cancels the calls that wait beyond these numbers, and beyond 30 s; `Admission` says why it refuses one, and a
    # caller's deadline ends the wait.
    ("grpc.server.max_pending_requests", 2**31 - 1),
    ("grpc.server.max_pending_requests_hard_limit", 2**31 - 1),
    ("grpc.server_max_unrequested_time_in_server", 86_400),
    # A connection that does not finish its handshake, or whose client is gone without a word, ends.
    ("grpc.server_handshake_timeout_ms", 20_000),
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    # A client may ping every 10 s, which many do; gRPC's own minimum is 5 minutes. The second leaves room for a timer.
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 9_000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 9_000),
)


class Server:
    """A server on one address: of a policy until `served` is given another."""

    def __init__(
        self,
        checked: CheckedPolicy,
        port: Port,
        metrics: PolicyMetrics | None = None,
        concurrent_calls: int = limits.CONCURRENT_CALLS,
        callers: WatchedCallers | None = None,
        calls: CallMetrics | None = None,
    ) -> None:
        calls = calls or CallMetrics()
        port.check()
        self.served = ServedPolicy(checked, metrics)
        self._watches = PolicyWatches(self.served)
        about_policy = PolicyCalls(self.served, concurrent_calls)
        places, turns, large = Places(concurrent_calls), Turns(), LargeRequests()
        methods: Mapping[str, Mapping[str, Answer]] = {
            CALLABILITY: {
                name: turns.answer(method, places, 0 if name == _SLOW else _AT_ONCE_BYTES)
                for name, method in self.served.answers.items()
            },
            POLICY: {"GetPolicy": _any(about_policy.get_policy), "ValidatePolicy": _any(about_policy.validate_policy)},
        }
        reading = Reading(64, concurrent_calls, 1.0, calls, large.ended)
        in_bulk = Reading(16, 256, 2.0, calls, large.ended)
        # Without credentials, anybody may take these: a probe whose request has not arrived at once waits for nothing.
        self._health = Health(Reading(2, 256, 0.05, calls, large.ended), large.ended)
        handlers = {
            **{
                f"/{service}/{name}": unary(
                    answer,
                    f"/{service}/{name}",
                    REQUEST_BYTES[f"{service}/{name}"],
                    in_bulk if name in _IN_BULK else reading,
                    places,
                    large.ended,
                    calls.of(f"{service}/{name}"),
                    lambda: self._admission.is_cutting,
                )
                for service, named in methods.items()
                for name, answer in named.items()
            },
            _WATCH: streaming(self._watches.follow, _WATCH, REQUEST_BYTES[_WATCH[1:]], reading, large.ended),
            **self._health.handlers,
            **Reflection((CALLABILITY, POLICY, health.SERVICE), reading, large.ended).handlers,
        }
        guard = Guard(
            lambda: callers.authentication if callers else None,
            certificates=port.client_certificates(lambda: self.address),
            open_methods=self._health.handlers,
            metrics=calls,
        )
        streams = Streams(concurrent_calls, self._health.handlers, calls)
        self._admission = Admission(handlers, places, turns, streams, {health.CHECK}, guard, calls)
        per_connection = ("grpc.max_concurrent_streams", max(limits.CONNECTION_STREAMS, 3 * concurrent_calls))
        connections = ("grpc.max_allowed_incoming_connections", most_connections())
        options = (*_OPTIONS, *port.options, per_connection, connections)
        self._server = grpc.aio.server(handlers=(self._admission,), options=options)
        self.address = port.open(self._server)
        self._private: Path | None = None
        if not port.is_private:
            # A stop asks the server itself, and no other process. Only this user may enter the directory.
            self._private = Path(tempfile.mkdtemp(prefix="callability-"))
            self._server.add_insecure_port(f"unix:{self._private}/stop")

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
        await self._watches.end()
        await self._admission.close(f"unix:{self._private}/stop" if self._private else self.address, GRACE)
        if self._private:
            shutil.rmtree(self._private, ignore_errors=True)
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
