"""Bad callers of a service over TLS: each gets the status that users of gRPC expect, and others are not affected."""

from __future__ import annotations

import asyncio
import os
import platform
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

import grpc
import pytest

from callability.v1 import callability_service_pb2 as pb
from callability.v1.callability_service_pb2_grpc import CallabilityServiceStub
from callability.v1.policy_service_pb2 import GetPolicyRequest, PolicyFile, ValidatePolicyRequest
from callability.v1.policy_service_pb2_grpc import PolicyServiceStub
from support.callers import LONG_AGO, bearer, tls_channel, token_entry, write_callers
from support.certificates import Authority, Pair
from support.checkout import POLICY
from support.raw_http2 import SETTINGS, frame
from support.running import Service, resident, service
from support.services import SWITCHED_OFF, reason_of
from support.waiting import SECONDS, eventually

IDLE = 1_000
HALF_OPEN = 20
OWN = (("grpc.use_local_subchannel_pool", 1),)
HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0)
"""What an HTTP/2 client sends first."""
Outcome = tuple[str, str]


class Guarded:
    """A service over TLS that wants a certificate of every client, and knows its callers."""

    def __init__(self, running: Service, authority: Authority, directory: Path) -> None:
        self.address = running.address
        self.process = running.process
        self.authority = authority
        self.client = authority.pair("client", "client.example")
        self.expired = authority.pair("expired", "client.example", days=-1)
        self.stranger = Authority(directory, "stranger")
        self.strange = self.stranger.pair("strange", "client.example")
        self._log = directory / "log"

    @property
    def log(self) -> str:
        """What was logged up to now."""
        return self._log.read_text()

    def outcome(self, channel: grpc.Channel, token: str = "", **options: Any) -> Outcome:
        """Ask about a tool, and return the code and the reason of how the call ends."""
        stub = CallabilityServiceStub(channel)
        request = options.pop("request", SWITCHED_OFF)
        try:
            stub.CheckTool(request, metadata=bearer(token) if token else (), **({"timeout": SECONDS} | options))
        except grpc.RpcError as error:
            return _outcome(error)
        return "OK", ""

    def over_tls(self, token: str = "good", client: Pair | None = None, **options: Any) -> Outcome:
        """Call with a certificate, that of a good client by default."""
        with tls_channel(self.address, self.authority.path, client or self.client) as channel:
            return self.outcome(channel, token, **options)

    def sockets(self) -> int:
        """Return how many sockets it has: its connections, and some of its own."""
        directory, found = Path(f"/proc/{self.process.pid}/fd"), 0
        for each in os.listdir(directory):
            with suppress(FileNotFoundError):
                found += os.readlink(directory / each).startswith("socket:")
        return found

    def connected(self) -> socket.socket:
        """Return a connection without TLS."""
        host, _, port = self.address.rpartition(":")
        return socket.create_connection((host, int(port)), timeout=SECONDS)

    def secured(self) -> ssl.SSLSocket:
        """Return a connection over TLS, on which nothing of HTTP/2 was sent."""
        context = ssl.create_default_context(cafile=str(self.authority.path))
        context.load_cert_chain(self.client.certificate, self.client.key)
        context.set_alpn_protocols(["h2"])
        return context.wrap_socket(self.connected(), server_hostname="127.0.0.1")


def _outcome(error: Any) -> Outcome:
    is_ours = any(key == "grpc-status-details-bin" for key, _ in error.trailing_metadata() or ())
    return error.code().name, reason_of(error) if is_ours else ""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A service that all tests here call, well and badly."""
    directory = tmp_path_factory.mktemp("guarded")
    authority = Authority(directory, "known")
    pair = authority.pair("server")
    callers = write_callers(
        directory,
        good={"tokens": [token_entry("good")], "may": ["check"]},
        former={"tokens": [token_entry("former", LONG_AGO)], "may": ["check"]},
        reader={"tokens": [token_entry("reader")], "may": ["policy"]},
    )
    files = ("--tls-certificate", str(pair.certificate), "--tls-key", str(pair.key), "--callers", str(callers))
    with service(*files, "--tls-client-ca", str(authority.path), log=directory / "log") as running:
        yield Guarded(running, authority, directory)


@contextmanager
def others_answered(guarded: Guarded) -> Iterator[None]:
    """Call on another connection throughout; each call must be answered."""
    ending, found = Event(), list[Outcome]()

    def ask() -> None:
        with tls_channel(guarded.address, guarded.authority.path, guarded.client) as channel:
            while not ending.is_set() or not found:
                found.append(guarded.outcome(channel, "good"))

    other = Thread(target=ask)
    other.start()
    try:
        yield
    finally:
        ending.set()
        other.join()
    assert set(found) == {("OK", "")}
    assert "Traceback" not in guarded.log


def _plain(guarded: Guarded) -> Outcome:
    with grpc.insecure_channel(guarded.address, options=OWN) as channel:
        return guarded.outcome(channel, "good")


def _trusts_another(guarded: Guarded) -> Outcome:
    with tls_channel(guarded.address, guarded.stranger.path, guarded.client) as channel:
        return guarded.outcome(channel, "good")


def _without_certificate(guarded: Guarded) -> Outcome:
    with tls_channel(guarded.address, guarded.authority.path) as channel:
        return guarded.outcome(channel, "good")


BAD: Mapping[str, tuple[Callable[[Guarded], Outcome], *tuple[Outcome, ...]]] = {
    "no token": (lambda guarded: guarded.over_tls(""), ("UNAUTHENTICATED", "CERTIFICATE_UNKNOWN")),
    "a wrong token": (lambda guarded: guarded.over_tls("wrong"), ("UNAUTHENTICATED", "TOKEN_UNKNOWN")),
    "an expired token": (lambda guarded: guarded.over_tls("former"), ("UNAUTHENTICATED", "TOKEN_EXPIRED")),
    "no right": (lambda guarded: guarded.over_tls("reader"), ("PERMISSION_DENIED", "RIGHT_MISSING")),
    "a wrong authority": (_trusts_another, ("UNAVAILABLE", "")),
    "no certificate": (_without_certificate, ("UNAVAILABLE", "")),
    "an expired certificate": (lambda guarded: guarded.over_tls(client=guarded.expired), ("UNAVAILABLE", "")),
    "a certificate of another authority": (
        lambda guarded: guarded.over_tls(client=guarded.strange),
        ("UNAVAILABLE", ""),
    ),
    "no TLS": (_plain, ("UNAVAILABLE", "")),
    "a message of 100 MB": (
        lambda guarded: guarded.over_tls(request=pb.CheckToolRequest(server="s" * 100_000_000)),
        ("RESOURCE_EXHAUSTED", ""),
    ),
    # The client's gRPC takes an answer that arrives before its timer fires, as it does on a busy machine.
    "deadline 0": (lambda guarded: guarded.over_tls(timeout=0), ("DEADLINE_EXCEEDED", ""), ("OK", "")),
    "a deadline that has passed": (lambda guarded: guarded.over_tls(timeout=-1), ("DEADLINE_EXCEEDED", "")),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_call_has_its_status_and_others_are_answered(kind: str, guarded: Guarded) -> None:
    """However often it is made."""
    call, *outcomes = BAD[kind]
    with others_answered(guarded):
        assert {call(guarded) for _ in range(3)} <= {*outcomes}


def test_half_open_connections_are_closed_and_others_are_answered(guarded: Guarded) -> None:
    """Without a byte, in the middle of a handshake, and after it without HTTP/2: none waits for ever."""
    before = guarded.sockets()
    with ExitStack() as stack, others_answered(guarded):
        silent = [stack.enter_context(guarded.connected()) for _ in range(HALF_OPEN)]
        started = [stack.enter_context(guarded.connected()) for _ in range(HALF_OPEN)]
        for each in started:
            each.sendall(b"\x16\x03\x01\x02\x00\x01")
        shaken = [stack.enter_context(guarded.secured()) for _ in range(HALF_OPEN)]
        for each in (*silent, *started, *shaken):
            while _received(each):
                pass
    eventually(lambda: guarded.sockets() <= before)


def _received(connection: socket.socket) -> bytes:
    try:
        return connection.recv(4_096)
    except (ConnectionResetError, ssl.SSLError):
        return b""


def test_a_thousand_idle_connections_leave_room_for_others(guarded: Guarded) -> None:
    """Of clients that answer pings, so that they may stay; and when they end, nothing of them is left."""
    before = guarded.sockets()

    async def connect_and_ask() -> None:
        credentials = grpc.ssl_channel_credentials(
            guarded.authority.path.read_bytes(),
            guarded.client.key.read_bytes(),
            guarded.client.certificate.read_bytes(),
        )
        async with AsyncExitStack() as stack:
            for _ in range(IDLE):
                channel = grpc.aio.secure_channel(guarded.address, credentials, options=OWN)
                await (await stack.enter_async_context(channel)).channel_ready()
            assert guarded.sockets() >= before + IDLE
            assert await asyncio.to_thread(guarded.over_tls) == ("OK", "")

    with others_answered(guarded):
        asyncio.run(connect_and_ask())
    eventually(lambda: guarded.sockets() <= before)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can return the memory of its heaps")
@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("unknown.example", ("UNAUTHENTICATED", "CERTIFICATE_UNKNOWN")),
        ("reader.example", ("PERMISSION_DENIED", "RIGHT_MISSING")),
        ("checker.example", ("INVALID_ARGUMENT", "TOO_MANY_SERVERS")),
    ],
)
def test_large_requests_that_callers_with_certificates_send_take_no_memory(
    name: str, outcome: Outcome, tmp_path: Path
) -> None:
    """Whether the caller may not make the call, or the request is refused."""
    authority = Authority(tmp_path, "known")
    pair, client = authority.pair("server"), authority.pair("client", name)
    callers = write_callers(
        tmp_path,
        reader={"certificates": ["reader.example"], "may": ["policy"]},
        checker={"certificates": ["checker.example"], "may": ["check"]},
    )
    files = ("--tls-certificate", str(pair.certificate), "--tls-key", str(pair.key), "--callers", str(callers))
    with (
        service(*files, "--tls-client-ca", str(authority.path)) as running,
        tls_channel(running.address, authority.path, client) as channel,
    ):
        check: Any = channel.unary_unary("/callability.v1.CallabilityService/CheckTools")

        def refused(request: bytes) -> Outcome:
            with pytest.raises(grpc.RpcError) as caught:
                check(request, timeout=SECONDS)
            return _outcome(caught.value)

        large = b"\x12\0" * (2 * 1024 * 1024 - 8)
        assert refused(large[:8192]) == outcome
        before = resident(running)
        assert {refused(large) for _ in range(12)} == {outcome}
        eventually(lambda: resident(running) - before < 50)


def test_a_service_is_not_bound_by_the_usual_limit_of_open_files() -> None:
    """Systems start programs with 1,024; it raises that as far as it may, and refuses connections beyond that at once.

    What it needs for itself is kept: the check of a policy starts a process.
    """
    with ExitStack() as stack:
        usual = stack.enter_context(service(before=("prlimit", "--nofile=256:1024")))
        low = stack.enter_context(service(before=("prlimit", "--nofile=256:256")))
        for running, codes in ((usual, {"OK"}), (low, {"UNAVAILABLE"})):
            with grpc.insecure_channel(running.address, options=OWN) as old, ExitStack() as idle:
                assert CallabilityServiceStub(old).CheckTool(SWITCHED_OFF, timeout=SECONDS).revision
                host, _, port = running.address.rpartition(":")
                for _ in range(400):
                    idle.enter_context(socket.create_connection((host, int(port)), timeout=SECONDS)).sendall(HELLO)
                assert {_code(running.address) for _ in range(3)} == codes
                assert CallabilityServiceStub(old).CheckTool(SWITCHED_OFF, timeout=SECONDS).revision
                files = [PolicyFile(name=each.name, data=each.read_bytes()) for each in POLICY.glob("*.yaml")]
                checked = PolicyServiceStub(old).ValidatePolicy(ValidatePolicyRequest(files=files), timeout=SECONDS)
                assert checked.revision == PolicyServiceStub(old).GetPolicy(GetPolicyRequest()).revision


def _code(address: str) -> str:
    with grpc.insecure_channel(address, options=OWN) as channel:
        try:
            CallabilityServiceStub(channel).CheckTool(SWITCHED_OFF, timeout=SECONDS)
        except grpc.RpcError as error:
            return str(error.code().name)
    return "OK"
