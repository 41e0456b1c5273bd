"""The certificates of clients, after their handshake: one that has expired, or whose authorities were edited, ends."""

from __future__ import annotations

import ipaddress
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from callability.certificates import WatchedCertificates
from callability.service.callers.certificate_names import CertificateName, presented_names
from callability.service.requests.errors import Unauthenticated
from callability.service.transport.places import SHARED_PEER

if TYPE_CHECKING:
    from callability.service.transport.edge import Context

_TABLES = (Path("/proc/self/net/tcp"), Path("/proc/self/net/tcp6"))
"""The connections of this machine, or of its container, as Linux reports them."""
_ESTABLISHED = "01"
_PARSED = 1_024
"""Certificates whose end is remembered: a client sends the same one with each call."""
_LOOK_SECONDS = 1.0
"""Seconds after which is looked again which of the outdated connections are still open."""
Endpoint = tuple[str, int]
"""The address and the port of a client."""


class ClientCertificates:
    """Knows what the certificate of a connection is worth now: gRPC checks it in the handshake alone."""

    def __init__(self, certificates: WatchedCertificates, address: Callable[[], str]) -> None:
        self._address = address
        self._outdated: frozenset[tuple[Endpoint, str]] = frozenset()
        """The connections that were open when the authorities were last edited, each with its socket."""
        self._looked = 0.0
        certificates.authorities_changed = self._outdate

    def names(self, context: Context) -> tuple[CertificateName, ...]:
        """Return the names in the certificate of a call's connection.

        Raises:
            Unauthenticated: it has none, it has expired, or the authorities were edited after the handshake.
        """
        properties = context.auth_context()
        if not (certificate := b"".join(properties.get("x509_pem_cert", ()))):
            raise Unauthenticated("NO_CREDENTIALS", "the connection has no client certificate: connect with one")
        if _expires(certificate) <= time.time():
            said = "the client certificate of the connection has expired: connect again with a new one"
            raise Unauthenticated("CERTIFICATE_EXPIRED", said)
        if self._outdated and self._is_outdated(context.peer()):
            said = "the authorities of client certificates were edited after this connection was made: connect again"
            raise Unauthenticated("AUTHORITIES_CHANGED", said)
        return tuple(presented_names(properties))

    def _outdate(self) -> None:
        """Note the connections that are open, whether or not they have made a call."""
        self._outdated = self._open()

    def _is_outdated(self, peer: str) -> bool:
        if peer == SHARED_PEER:
            return False
        if (now := time.monotonic()) - self._looked > _LOOK_SECONDS:
            # The port of a client that has gone may become that of a new connection.
            self._looked, self._outdated = now, self._outdated & self._open()
        endpoint = _endpoint(peer)
        return any(each == endpoint for each, _ in self._outdated)

    def _open(self) -> frozenset[tuple[Endpoint, str]]:
        host, _, port = self._address().rpartition(":")
        return frozenset() if host == "unix" else frozenset(_connections(int(port)))


@lru_cache(_PARSED)
def _expires(pem: bytes) -> float:
    from cryptography import x509  # noqa: PLC0415  # it costs a service without certificates time and memory

    return x509.load_pem_x509_certificate(pem).not_valid_after_utc.timestamp()


def _connections(port: int) -> Iterator[tuple[Endpoint, str]]:
    """Return the clients of the connections to a local port, each with the number of its socket."""
    for table in _TABLES:
        # Without IPv6, there is no such table.
        with suppress(FileNotFoundError):
            for line in table.read_text().splitlines()[1:]:
                _, local, remote, state, *_, inode = line.split()[:10]
                if state == _ESTABLISHED and int(local.rpartition(":")[2], 16) == port:
                    host, _, number = remote.partition(":")
                    yield (_address(bytes.fromhex(host)), int(number, 16)), inode


def _address(packed: bytes) -> str:
    """Return an address that is written as numbers of 32 bits, in the order of bytes of this machine."""
    words = [int.from_bytes(packed[at : at + 4], "big").to_bytes(4, sys.byteorder) for at in range(0, len(packed), 4)]
    return _plain(ipaddress.ip_address(b"".join(words)))


def _endpoint(peer: str) -> Endpoint:
    """Return the client that gRPC writes as `ipv4:127.0.0.1:7420`, or as `ipv6:%5B::1%5D:7420`."""
    host, _, port = unquote(peer).partition(":")[2].rpartition(":")
    return _plain(ipaddress.ip_address(host.strip("[]").partition("%")[0])), int(port)


def _plain(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    return str(getattr(address, "ipv4_mapped", None) or address)
