"""Pings of clients that keep their connections alive."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread

import grpc

from callability.v1 import callability_service_pb2 as pb
from callability.v1.callability_service_pb2_grpc import CallabilityServiceStub
from support.raw_http2 import ACK, PING
from support.waiting import eventually

GOAWAY = 7
EVERY_TEN_SECONDS = (
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    # Pings that measure the connection would be counted too.
    ("grpc.http2.bdp_probe", 0),
)


class _Relay:
    """Passes connections on to a service, and notes the frames that the service sends."""

    def __init__(self, listener: socket.socket, address: str) -> None:
        self._listener = listener
        host, _, port = address.rpartition(":")
        self._target = host, int(port)
        self.connections = 0
        self.frames: list[tuple[int, int]] = []
        """The kind and the flags of each frame."""

    def run(self) -> None:
        """Accept connections until the listener is closed."""
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self.connections += 1
                server = socket.create_connection(self._target)
                Thread(target=self._pass_on, args=(client, server), daemon=True).start()
                Thread(target=self._pass_back, args=(server, client), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with source, target, suppress(OSError):
            while data := source.recv(65_536):
                target.sendall(data)

    def _pass_back(self, source: socket.socket, target: socket.socket) -> None:
        stream = source.makefile("rb")
        with source, target, suppress(OSError):
            while head := stream.read(9):
                payload = stream.read(int.from_bytes(head[:3], "big"))
                self.frames.append((head[3], head[4]))
                target.sendall(head + payload)


@contextmanager
def _relay(address: str) -> Iterator[tuple[_Relay, str]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        relay = _Relay(listener, address)
        Thread(target=relay.run, daemon=True).start()
        yield relay, f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)


def test_a_client_that_pings_every_ten_seconds_keeps_its_connection(address: str) -> None:
    """Without a call between the pings; gRPC's own limit would end the connection at the third."""
    with _relay(address) as (relay, relayed), grpc.insecure_channel(relayed, EVERY_TEN_SECONDS) as channel:
        stub = CallabilityServiceStub(channel)
        assert stub.CheckTool(pb.CheckToolRequest(server="s", tool="t")).revision
        eventually(lambda: relay.frames.count((PING, ACK)) >= 4 or any(kind == GOAWAY for kind, _ in relay.frames))
        assert stub.CheckTool(pb.CheckToolRequest(server="s", tool="t")).revision
        assert not any(kind == GOAWAY for kind, _ in relay.frames)
        assert relay.connections == 1
