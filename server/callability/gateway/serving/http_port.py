"""The port of a gateway over HTTP: its address, and how agents are protected on it.

It imports nothing that serves HTTP: a gateway over stdio starts without that.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass

from callability.files.certificates import WatchedCertificates
from callability.process.address import check_listen, is_loopback, listening, missing_protection


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
