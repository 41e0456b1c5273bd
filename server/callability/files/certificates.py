"""A server's certificate, its key and the authorities of its clients: read from files, and again when they change."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from callability.contract.finding import Finding, Place, as_code, line
from callability.files import document
from callability.files.watching import looks
from callability.process.address import socket_path

_EXPIRED = 10
"""OpenSSL's number of the fault that a certificate has expired."""
_BLOCK = re.compile(rb"^-----BEGIN .*?^-----END [^\n]*", re.DOTALL | re.MULTILINE)
_SWAPPED = "give the certificate to `--tls-certificate`, and its key to `--tls-key`"
_USUAL_KEYS = "use an RSA key of 2,048 bits or more, or an elliptic curve key on P-256"
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """Where a server's certificate chain and its key are, and the authorities of its clients if they need one."""

    certificate: Path
    key: Path
    client_authorities: Path | None = None

    @property
    def paths(self) -> tuple[Path, ...]:
        """Every file."""
        return tuple(path for path in (self.certificate, self.key, self.client_authorities) if path)


@dataclass(frozen=True, slots=True)
class Certificates:
    """The content of the files, in PEM, the end of the certificate's validity, and a TLS context of them."""

    chain: bytes
    key: bytes
    client_authorities: bytes | None
    not_after: datetime
    context: ssl.SSLContext
    names: tuple[str, ...] = ()
    """The names that the certificate is for."""


class CertificateRefused(Exception):
    """Files that no server can use. It carries the finding."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(str(finding))
        self.finding = finding


def read_certificates(files: CertificateFiles) -> Certificates:
    """Read the files, and try them in a handshake.

    Raises:
        CertificateRefused: one cannot be read, they do not belong together, or the certificate is not valid now.
    """
    chain, key = _read(files.certificate), _read(files.key)
    authorities = _read(files.client_authorities) if files.client_authorities else None
    context = _context(files, chain, key, authorities)
    seen = _seen_by_a_client(files.certificate, chain, context)
    not_after = datetime.fromtimestamp(ssl.cert_time_to_seconds(str(seen["notAfter"])), UTC)
    return Certificates(chain, key, authorities, not_after, context, names_of(seen))


def _read(path: Path) -> bytes:
    try:
        data = document.read_bytes(path)
    except document.Refused as refused:
        raise CertificateRefused(refused.findings[0]) from refused
    if len(data) > document.MAX_BYTES:
        sentence = f"is larger than {document.MAX_BYTES:,} bytes"
        raise CertificateRefused(Finding(Place(str(path)), "file-too-large", sentence))
    return data


def _context(files: CertificateFiles, chain: bytes, key: bytes, authorities: bytes | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # The bytes that were read, and not the files, which may be replaced meanwhile. They never reach a disk.
    with os.fdopen(os.memfd_create("certificate"), "wb") as joined:
        joined.write(key + b"\n" + chain)
        joined.flush()
        try:
            context.load_cert_chain(f"/proc/self/fd/{joined.fileno()}", password=_no_password)
        except (ssl.SSLError, _Encrypted) as error:
            raise CertificateRefused(_unfit(files, error)) from error
    if authorities is not None and files.client_authorities:
        try:
            context.load_verify_locations(cadata=authorities.decode("ascii"))
        # An empty file is a ValueError, as is one that is not ASCII.
        except (ssl.SSLError, ValueError) as error:
            finding = Finding(Place(str(files.client_authorities)), "bad-certificate", "holds no certificate in PEM")
            raise CertificateRefused(finding) from error
        context.verify_mode = ssl.CERT_REQUIRED
    return context


class _Encrypted(Exception):
    """The key needs a password."""


def _no_password() -> bytes:
    """Refuse to ask for a password, as OpenSSL would on the terminal."""
    raise _Encrypted


def _unfit(files: CertificateFiles, error: Exception) -> Finding:
    match error:
        case _Encrypted():
            return Finding(
                Place(str(files.key)), "bad-certificate", "the key is encrypted", "write it without a password"
            )
        case ssl.SSLError(reason="KEY_VALUES_MISMATCH" | "KEY_TYPE_MISMATCH"):
            sentence = "the key is not that of the certificate"
            return Finding(Place(str(files.key)), "bad-certificate", sentence, f"see {files.certificate}")
        case ssl.SSLError(reason="EE_KEY_TOO_SMALL"):
            return Finding(
                Place(str(files.certificate)), "bad-certificate", "the key of the certificate is too short", _USUAL_KEYS
            )
        case _:
            sentence = "certificate and key cannot be used: they are not in PEM, or incomplete"
            return Finding(Place(str(files.certificate)), "bad-certificate", sentence, f"the key is {files.key}")


def names_of(seen: Mapping[str, object]) -> tuple[str, ...]:
    """Return the names that a certificate is for, as `ssl` shows it."""
    found = seen.get("subjectAltName", ())
    assert isinstance(found, tuple)
    return tuple(str(name) for kind, name in found if kind in {"DNS", "IP Address"})


def _seen_by_a_client(path: Path, chain: bytes, context: ssl.SSLContext) -> dict[str, object]:
    """Return the certificate as a client sees it that trusts it alone.

    Raises:
        CertificateRefused: it cannot be used.
    """
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    try:
        client.load_verify_locations(cadata=chain.decode("ascii", "ignore"))
    except (ssl.SSLError, ValueError) as error:
        # OpenSSL read key and certificate as one file, and found both of them, but not where they were named.
        finding = Finding(Place(str(path)), "bad-certificate", "holds no certificate in PEM", _SWAPPED)
        raise CertificateRefused(finding) from error
    try:
        return _handshake(client, context)
    except ssl.SSLCertVerificationError as error:
        if error.verify_code == _EXPIRED:
            finding = Finding(Place(str(path)), "expired-certificate", "the certificate has expired")
        else:
            sentence = f"the certificate cannot be used: {error.verify_message}"
            finding = Finding(Place(str(path)), "bad-certificate", sentence)
        raise CertificateRefused(finding) from error
    except ssl.SSLError as error:
        # Such as a key of a kind or on a curve that no client of today offers.
        sentence = f"no client can connect with the certificate: {as_code(error.reason or 'TLS failed')}"
        finding = Finding(Place(str(path)), "bad-certificate", sentence, _USUAL_KEYS)
        raise CertificateRefused(finding) from error


def _handshake(client: ssl.SSLContext, server: ssl.SSLContext) -> dict[str, object]:
    """Return the certificate of a server as its client sees it, after a handshake in memory."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client_side = client.wrap_bio(to_client, to_server)
    server_side = server.wrap_bio(to_server, to_client, server_side=True)
    for side in (client_side, server_side, client_side):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return dict(client_side.getpeercert() or {})


class CertificateRecord(Protocol):
    """Where it is recorded when a certificate expires, and whether an edit of its files was applied."""

    def __call__(self, expires: datetime, *, applied: bool | None = None) -> None:
        """Record it."""


class WatchedCertificates:
    """The last good state of the files."""

    def __init__(self, files: CertificateFiles) -> None:
        self.files = files
        self.seen = _digest(files)
        """The digest of the files as they were seen last, in effect or refused."""
        self.current = read_certificates(files)
        self._reported: datetime | None = None
        """The end of the certificate whose end was reported."""
        self.edition = 0
        """How often the files were replaced."""
        self._record: CertificateRecord | None = None
        self.changed: Callable[[bool], None] = lambda in_effect: None
        """Called after each change of the files, with whether it is in effect."""
        self.authority_removed: Callable[[], None] = lambda: None
        """Called when an authority no longer counts that connections may have been accepted by."""

    def report_to(self, record: CertificateRecord) -> None:
        """Report when the certificate in effect expires, now and after each edit of the files."""
        self._record = record
        record(self.current.not_after)

    async def follow(self) -> None:
        """Read the files again when they change, for ever; the last good state stays in effect."""
        async for _ in looks(lambda: self.files.paths):
            try:
                await asyncio.to_thread(self._look)
                self._report_end()
            except Exception:
                # For want of memory or descriptors, say. The next look tries again.
                self.seen = ""
                _logger.exception("the certificates could not be read")

    def _look(self) -> None:
        if (seen := _digest(self.files)) == self.seen:
            return
        # The files may be replaced one after the other: the next look sees whether they fit together.
        self.seen = seen
        refused: CertificateRefused | None = None
        before = self.current
        try:
            self.current = read_certificates(self.files)
        except CertificateRefused as error:
            refused = error
        if refused is not None:
            _logger.error("%s", line(refused.finding))
            _logger.error("the edit of the certificates is refused: the previous ones stay in effect")
        else:
            self.edition += 1
            if not _blocks(before.client_authorities) <= _blocks(self.current.client_authorities):
                self.authority_removed()
            _logger.info("the certificate is replaced; the new one expires at %s", self.current.not_after.isoformat())
            if lost := [as_code(name) for name in before.names if name not in self.current.names]:
                _logger.warning("the new certificate is not for %s: clients that use this name fail", ", ".join(lost))
        if self._record is not None:
            self._record(self.current.not_after, applied=refused is None)
        self.changed(refused is None)

    def _report_end(self) -> None:
        """Report once that the certificate in effect is no longer valid."""
        end = self.current.not_after
        if end > datetime.now(UTC) or end == self._reported:
            return
        self._reported = end
        words = "%s: the certificate in effect expired at %s, so that no client can connect: replace the file"
        _logger.error(words, self.files.certificate, end.isoformat())


class CurrentContext(ssl.SSLContext):
    """A context for a listener: each connection has the certificates that are in effect when it begins."""

    certificates: WatchedCertificates

    @classmethod
    def of(cls, certificates: WatchedCertificates) -> CurrentContext:
        """Return the context of certificates that are watched."""
        context = cls(ssl.PROTOCOL_TLS_SERVER)
        context.certificates = certificates
        return context

    def wrap_bio(self, *args: object, **options: object) -> ssl.SSLObject:
        """Begin a connection."""
        return self.certificates.current.context.wrap_bio(*args, **options)  # type: ignore[arg-type]


def _blocks(pem: bytes | None) -> frozenset[bytes]:
    """Return the blocks of a file in PEM, of whatever kind, without white space."""
    return frozenset(b"".join(block.split()) for block in _BLOCK.findall(pem or b""))


def _digest(files: CertificateFiles) -> str:
    """Return a digest of what the files hold now; a file that cannot be read counts as empty."""
    found = hashlib.sha256()
    for path in files.paths:
        try:
            found.update(hashlib.sha256(document.read_bytes(path)).digest())
        except document.Refused:
            found.update(b"-")
    return found.hexdigest()


async def presented_certificate(
    address: str, certificate: bytes | None, key: bytes | None
) -> tuple[bytes, tuple[str, ...]]:
    """Return the certificate that a server presents, in PEM, and the names that it is for.

    Nothing is sent to the server but a client certificate, if one is given. Without it, a server that requires one
    ends the connection, but only after it has presented its own: that is the order of TLS 1.3.

    Raises:
        OSError: there is no connection, the certificate has expired, or the client certificate cannot be used.
    """
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.minimum_version = ssl.TLSVersion.TLSv1_3
    client.check_hostname = False
    client.verify_mode = ssl.CERT_NONE
    client.set_alpn_protocols(["h2"])
    if certificate is not None and key is not None:
        with os.fdopen(os.memfd_create("certificate"), "wb") as joined:
            joined.write(key + b"\n" + certificate)
            joined.flush()
            client.load_cert_chain(f"/proc/self/fd/{joined.fileno()}", password=lambda: "")
    found = (await _connect(address, client)).getpeercert(binary_form=True)
    assert found is not None
    # The names are only known of a certificate that was verified.
    client.load_verify_locations(cadata=found)
    client.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    client.verify_mode = ssl.CERT_REQUIRED
    names = names_of((await _connect(address, client)).getpeercert() or {})
    return ssl.DER_cert_to_PEM_cert(found).encode(), names


async def _connect(address: str, client: ssl.SSLContext) -> ssl.SSLObject:
    """Return the state of a connection after its handshake; the connection is closed."""
    if address.startswith("unix:"):
        path = socket_path(address)
        _, writer = await asyncio.open_unix_connection(path, ssl=client, server_hostname="localhost")
    else:
        host, _, port = address.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        _, writer = await asyncio.open_connection(host, int(port), ssl=client)
    made: ssl.SSLObject = writer.get_extra_info("ssl_object")
    writer.transport.abort()
    return made
