"""The gRPC server: the calls of the contract, health and reflection, on one port."""

from __future__ import annotations

import asyncio
import ctypes
import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import grpc

from callability.files.certificates import Certificates, WatchedCertificates
from callability.kernel import limits
from callability.kernel.limits import REQUEST_BYTES
from callability.kernel.policy import CheckedPolicy
from callability.process.address import (
    AddressRefused,
    check_free,
    check_listen,
    check_socket_path,
    missing_protection,
    socket_path,
)
from callability.records.recorder import Recorder
from callability.records.shadow import Shadow
from callability.service import health
from callability.service.admission import Admission, Streams, Turns
from callability.service.callers import WatchedCallers
from callability.service.calls import PolicyCalls, PolicyWatches, ServedPolicy
from callability.service.edge import Answer, Copies, Method, Places, ReadingPlaces, streaming, unary
from callability.service.guard import ClientCertificates, Guard, most_connections
from callability.service.health import Health, Reflection
from callability.service.metrics import CallMetrics, PolicyMetrics
from callability.v1 import callability_service_pb2, policy_service_pb2

_AGE_GRACE_MS = 30_000
"""Milliseconds that calls have to end on a connection that has reached its age."""


@dataclass(frozen=True, slots=True)
class Port:
    """Where a server listens. Without certificates, nothing is encrypted.

    `callers` is whether callers are authenticated, by tokens or by certificates. `insecure` allows an address other
    than loopback without encryption or without authentication. `socket_mode` is the mode of a Unix socket.
    `connection_seconds` is the age at which a connection is closed, once its calls have ended. With `reuse_port`, other
    processes of the same user may listen on the port too, and the system spreads connections among them.
    """

    address: str
    certificates: WatchedCertificates | None = None
    callers: bool = False
    insecure: bool = False
    socket_mode: int | None = None
    connection_seconds: int | None = None
    reuse_port: bool = False

    @property
    def options(self) -> tuple[tuple[str, int], ...]:
        """The options of gRPC about the port and its connections."""
        reuse = ("grpc.so_reuseport", int(self.reuse_port))
        if self.connection_seconds is None:
            return (reuse,)
        age = ("grpc.max_connection_age_ms", 1_000 * self.connection_seconds)
        return (reuse, age, ("grpc.max_connection_age_grace_ms", _AGE_GRACE_MS))

    @property
    def is_private(self) -> bool:
        """Whether this process alone answers at the address, without credentials."""
        return self.certificates is None and not self.reuse_port

    @property
    def is_socket(self) -> bool:
        """Whether it is a Unix socket."""
        return self.address.startswith("unix:")

    @property
    def needs_client_certificate(self) -> bool:
        """Whether every client needs a certificate."""
        return self.certificates is not None and self.certificates.files.client_authorities is not None

    def client_certificates(self, address: Callable[[], str]) -> ClientCertificates | None:
        """Return what knows the certificates of clients, if each needs one; `address` returns where it listens."""
        if self.certificates is None or not self.needs_client_certificate:
            return None
        return ClientCertificates(self.certificates, address)

    def check(self) -> None:
        """Check that the address may be listened on, and that it is free.

        Raises:
            AddressRefused: it may not, or is not.
        """
        if self.is_socket:
            if self.reuse_port:
                raise AddressRefused("`--reuse-port` needs HOST:PORT: a Unix socket has one process")
            _check_socket(socket_path(self.address))
            return
        if self.socket_mode is not None:
            raise AddressRefused(f"`--socket-mode` goes with unix:PATH, and `{self.address}` is not one")
        missing = missing_protection(
            encrypted=self.certificates is not None,
            authenticated=self.callers or self.needs_client_certificate,
            by="`--callers` or `--tls-client-ca`",
        )
        check_listen(self.address, missing, any_host=not missing or self.insecure)
        check_free(self.address, reuse_port=self.reuse_port)

    def open(self, server: grpc.aio.Server) -> str:
        """Add the port to a server, and return its address, with the port that was chosen.

        Raises:
            AddressRefused: it cannot be listened on.
        """
        try:
            if not self.is_socket:
                return f"{self.address.rpartition(':')[0]}:{self._listen(server)}"
            self._add_socket(server)
            return self.address
        except RuntimeError:
            raise AddressRefused(f"`{self.address}` cannot be listened on") from None

    def _add_socket(self, server: grpc.aio.Server) -> None:
        if self.socket_mode is None:
            self._listen(server)
            return
        # Nobody may connect before the mode is set.
        before = os.umask(0o777)
        try:
            self._listen(server)
        finally:
            os.umask(before)
        socket_path(self.address).chmod(self.socket_mode)

    def _listen(self, server: grpc.aio.Server) -> int:
        if self.certificates is None:
            return server.add_insecure_port(self.address)
        return server.add_secure_port(self.address, _credentials(self.certificates, self.needs_client_certificate))


def _credentials(certificates: WatchedCertificates, client_certificate: bool) -> grpc.ServerCredentials:
    given = certificates.edition

    def new_certificates() -> grpc.ServerCertificateConfiguration | None:
        """Return what is in effect if it is new; gRPC asks before each handshake, one after the other."""
        nonlocal given
        if given == (edition := certificates.edition):
            return None
        given = edition
        return _configuration(certificates.current)

    first = _configuration(certificates.current)
    return grpc.dynamic_ssl_server_credentials(first, new_certificates, client_certificate)  # type: ignore[arg-type]  # as its documentation says


def _configuration(current: Certificates) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(current.key, current.chain)], current.client_authorities)


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


_M_MMAP_THRESHOLD = -3
_LARGE = 131_072
_QUIET = 0.5
"""Seconds after the end of a large request, in which gRPC frees what it holds of it, before memory is returned."""
_LATER = 5.0
"""Seconds after which memory is returned once more: a slow connection may have held its part for longer."""


def return_large_blocks() -> None:
    """Make the allocator return large blocks to the system as soon as they are freed.

    glibc stops doing so by itself: when a large block is freed, it raises the size from which blocks are mapped one by
    one. It then keeps what later large requests take, once for each thread. Other C libraries have no such call.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return
    mallopt(_M_MMAP_THRESHOLD, _LARGE)


class LargeRequests:
    """Returns freed memory to the system when large requests have ended, and none has come for a moment.

    The pieces in which a message arrives are smaller than a large block, so glibc keeps them in the heaps of the
    threads that received it. Use it in one event loop.
    """

    def __init__(self) -> None:
        self._give_back = _trim()
        self._timer: asyncio.TimerHandle | None = None

    def note_end(self, size: int) -> None:
        """Note the end of a request of so many bytes."""
        if size >= _LARGE:
            self._schedule(_QUIET, _LATER)

    def _schedule(self, seconds: float, *later: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._run, *later)

    def _run(self, *later: float) -> None:
        self._timer = None
        # It takes milliseconds, in which other threads go on.
        asyncio.get_running_loop().run_in_executor(None, self._give_back)
        if later:
            self._schedule(*later)


def _trim() -> Callable[[], object]:
    """Return what returns the freed memory of every heap; it does nothing if the C library has no such call."""
    try:
        malloc_trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):
        return lambda: None
    return lambda: malloc_trim(0)


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
        recorder: Recorder | None = None,
        shadow: Shadow | None = None,
    ) -> None:
        calls = calls or CallMetrics()
        port.check()
        self.served = ServedPolicy(checked, metrics, recorder, shadow)
        self._watches = PolicyWatches(self.served)
        about_policy = PolicyCalls(self.served, concurrent_calls)
        places, turns, large, copies = Places(concurrent_calls), Turns(), LargeRequests(), Copies()
        methods: Mapping[str, Mapping[str, Answer]] = {
            CALLABILITY: {
                name: turns.answer(method, places, 0 if name == _SLOW else _AT_ONCE_BYTES)
                for name, method in self.served.answers.items()
            },
            POLICY: {"GetPolicy": _any(about_policy.get_policy), "ValidatePolicy": _any(about_policy.validate_policy)},
        }
        reading = ReadingPlaces(64, concurrent_calls, 1.0, calls, large.note_end, copies)
        in_bulk = ReadingPlaces(16, 256, 2.0, calls, large.note_end, copies)
        # Without credentials, anybody may take these: a probe whose request has not arrived at once waits for nothing.
        self._health = Health(ReadingPlaces(2, 256, 0.05, calls, large.note_end, copies), large.note_end)
        handlers = {
            **{
                f"/{service}/{name}": unary(
                    answer,
                    f"/{service}/{name}",
                    REQUEST_BYTES[f"{service}/{name}"],
                    in_bulk if name in _IN_BULK else reading,
                    places,
                    large.note_end,
                    calls.of(f"{service}/{name}"),
                    lambda: self._admission.is_cutting,
                )
                for service, named in methods.items()
                for name, answer in named.items()
            },
            _WATCH: streaming(self._watches.follow, _WATCH, REQUEST_BYTES[_WATCH[1:]], reading, large.note_end),
            **self._health.handlers,
            **Reflection((CALLABILITY, POLICY, health.SERVICE), reading, large.note_end).handlers,
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
