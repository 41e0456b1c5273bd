"""Where a gateway listens: at a port over HTTP, or on the Unix socket on which the gateway of a user is joined.

It imports nothing that serves HTTP: a gateway over stdio starts without that.
"""

from __future__ import annotations

import os
import socket
import stat
from dataclasses import dataclass
from pathlib import Path

from callability.connect.joining import MeetingPlace, NotJoined
from callability.files.certificates import WatchedCertificates
from callability.process.address import AddressRefused, check_listen, is_loopback, listening, missing_protection


@dataclass(frozen=True, slots=True)
class HttpPort:
    """Where a gateway listens. Without certificates, nothing is encrypted.

    `hosts` are the names by which clients may ask, beside those of this machine. `insecure` allows an address other
    than loopback without encryption or without authentication.
    """

    address: str
    certificates: WatchedCertificates | None = None
    insecure: bool = False
    hosts: tuple[str, ...] = ()

    @property
    def scheme(self) -> str:
        """The scheme of the URL."""
        return "https" if self.certificates else "http"

    @property
    def is_local(self) -> bool:
        """Whether this machine alone can reach it."""
        return is_loopback(self.address.rpartition(":")[0].removeprefix("[").removesuffix("]"))

    def check(self, *, agents_have_tokens: bool) -> None:
        """Check that the address may be listened on.

        Raises:
            AddressRefused: it may not.
        """
        by_certificate = self.certificates is not None and self.certificates.files.client_authorities is not None
        missing = missing_protection(
            encrypted=self.certificates is not None,
            authenticated=agents_have_tokens or by_certificate,
            by="tokens to the agents of the config or `--tls-client-ca`",
        )
        check_listen(self.address, missing, any_host=not missing or self.insecure)

    def listen(self) -> socket.socket:
        """Return a socket that listens.

        Raises:
            AddressRefused: it cannot be listened on.
        """
        return listening(self.address)


@dataclass(frozen=True, slots=True)
class UserSocket:
    """Where the gateway of a config is joined, and for how long it waits for another agent; 0: for ever."""

    config: Path
    idle_seconds: float = 0

    def listen(self) -> socket.socket:
        """Return the socket that standard input is, or one that listens at the meeting place.

        Raises:
            AddressRefused: a gateway of this config runs already, or the place is not safe.
        """
        if stat.S_ISSOCK(os.fstat(0).st_mode):
            inherited = socket.socket(fileno=os.dup(0))
            if inherited.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                return inherited
            inherited.close()
            raise AddressRefused("standard input is a socket that does not listen; `--transport unix` needs one")
        place = MeetingPlace(str(self.config))
        try:
            place.make_folder()
            lock = place.lock()
            try:
                there = place.connect()
                if there is None:
                    return place.listen()
                there.close()
            finally:
                os.close(lock)
        except NotJoined as error:
            raise AddressRefused(str(error)) from error
        raise AddressRefused(f"a gateway of this config runs already: it listens on `{place.socket}`")
