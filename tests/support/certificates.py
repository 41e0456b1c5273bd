"""A certificate authority for servers on the loopback address, and the system's certificates."""

from __future__ import annotations

import ipaddress
import os
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpcore2
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey

_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""What names other certificates than the system's."""


def read_system_certificates_once() -> None:
    """Let the HTTP clients of this process share what trusts the certificates that it was started with.

    Each client reads them otherwise, which takes 60 ms: a sixth of the CPU of all tests of the gateway.
    """
    read, named = httpcore2.default_ssl_context, [os.environ.get(name) for name in _VARIABLES]
    shared = read()

    def shared_or_read(*, _trust_env: bool = True) -> ssl.SSLContext:
        names_the_same = _trust_env and [os.environ.get(name) for name in _VARIABLES] == named
        return shared if names_the_same else read(_trust_env=_trust_env)

    httpcore2.default_ssl_context = shared_or_read


@dataclass(frozen=True, slots=True)
class Pair:
    """The files of a certificate and of its key."""

    certificate: Path
    key: Path

    def replace_by(self, other: Pair) -> None:
        """Put the content of another pair into the files, as a rotation does."""
        for mine, theirs in ((self.key, other.key), (self.certificate, other.certificate)):
            fresh = mine.with_suffix(".new")
            fresh.write_bytes(theirs.read_bytes())
            fresh.replace(mine)


class Authority:
    """Signs certificates for 127.0.0.1; `path` is its own, by which a client knows it."""

    def __init__(self, directory: Path, name: str) -> None:
        self.path = directory / f"{name}.pem"
        self._directory = directory
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._certificate(self._name, self._key, authority=True)
        self.path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def server(self) -> ssl.SSLContext:
        """Return what a server on 127.0.0.1 needs to be trusted by those who know the authority."""
        pair = self.pair(f"{self.path.stem}-server")
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(pair.certificate, pair.key)
        return context

    def pair(
        self,
        name: str,
        identity: str = "",
        *,
        days: float = 1,
        key: PrivateKey | None = None,
        names: Sequence[x509.GeneralName] | None = None,
    ) -> Pair:
        """Write a certificate for 127.0.0.1, or for another `identity`, and its key; it expires in so many days.

        `names` are its subject alternative names instead of the identity, which then is its Common Name alone.
        """
        key = key or ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, identity or "127.0.0.1")])
        certificate = self._certificate(subject, key, authority=False, identity=identity, days=days, names=names)
        pair = Pair(self._directory / f"{name}.pem", self._directory / f"{name}-key.pem")
        form = serialization.PrivateFormat.PKCS8
        pair.key.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
        pair.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return pair

    def _certificate(
        self,
        subject: x509.Name,
        key: PrivateKey,
        *,
        authority: bool,
        identity: str = "",
        days: float = 1,
        names: Sequence[x509.GeneralName] | None = None,
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        loopback = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        if names is None:
            names = [x509.DNSName(identity) if identity else loopback]
        unsigned = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=10))
            .not_valid_after(now + timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        )
        if names:
            unsigned = unsigned.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return unsigned.sign(self._key, hashes.SHA256())
