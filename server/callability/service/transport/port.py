"""The port of a gRPC server: its address, and how callers are protected on it."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import grpc

from callability.address import (
    AddressRefused,
    check_free,
    check_listen,
    check_socket_path,
    missing_protection,
    socket_path,
)
from callability.certificates import Certificates, WatchedCertificates
from callability.service.transport.client_certificates import ClientCertificates

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
                return f"{self.address.rpartition(':')[0]}:{self._added(server)}"
            self._add_socket(server)
            return self.address
        except RuntimeError:
            raise AddressRefused(f"`{self.address}` cannot be listened on") from None

    def _add_socket(self, server: grpc.aio.Server) -> None:
        if self.socket_mode is None:
            self._added(server)
            return
        # Nobody may connect before the mode is set.
        before = os.umask(0o777)
        try:
            self._added(server)
        finally:
            os.umask(before)
        socket_path(self.address).chmod(self.socket_mode)

    def _added(self, server: grpc.aio.Server) -> int:
        if self.certificates is None:
            return server.add_insecure_port(self.address)
        return server.add_secure_port(self.address, _credentials(self.certificates, self.needs_client_certificate))


def _credentials(certificates: WatchedCertificates, client_certificate: bool) -> grpc.ServerCredentials:
    given = certificates.edition

    def changed() -> grpc.ServerCertificateConfiguration | None:
        """Return what is in effect if it is new; gRPC asks before each handshake, one after the other."""
        nonlocal given
        if given == (edition := certificates.edition):
            return None
        given = edition
        return _configuration(certificates.current)

    first = _configuration(certificates.current)
    return grpc.dynamic_ssl_server_credentials(first, changed, client_certificate)  # type: ignore[arg-type]  # as its documentation says


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
