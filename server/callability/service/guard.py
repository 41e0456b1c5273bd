"""Lets a call pass if its caller is known and has the right to it, and limits connections.

A connection ends once the certificate of its client has expired, or an authority was removed.
"""

from __future__ import annotations

import ipaddress
import logging
import resource
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import grpc

from callability.files.certificates import WatchedCertificates
from callability.process import logs
from callability.process.logs import LogInterval, fields
from callability.service.callers import (
    Authentication,
    Caller,
    CertificateName,
    Right,
    ServiceError,
    Unauthenticated,
    check_right,
    presented_names,
    right_of,
)
from callability.service.edge import SHARED_PEER, Context, Handler, abort, refusal, refusing
from callability.service.metrics import CallMetrics

if TYPE_CHECKING:
    from cryptography import x509

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
        self._certificates = certificates
        self._outdated: frozenset[tuple[Endpoint, str]] = frozenset()
        """The connections that were open when an authority was last removed, each with its socket."""
        self._looked = 0.0
        certificates.authority_removed = self._outdate

    def names(self, context: Context) -> tuple[CertificateName, ...]:
        """Return the names in the certificate of a call's connection.

        Raises:
            Unauthenticated: it has none, it has expired, or an authority was removed after the handshake that may have
                signed it.
        """
        properties = context.auth_context()
        if not (certificate := b"".join(properties.get("x509_pem_cert", ()))):
            raise Unauthenticated("NO_CREDENTIALS", "the connection has no client certificate: connect with one")
        if _expires(certificate) <= time.time():
            said = "the client certificate of the connection has expired: connect again with a new one"
            raise Unauthenticated("CERTIFICATE_EXPIRED", said)
        if self._outdated and self._is_outdated(context.peer()) and not self._is_still_trusted(certificate):
            said = "an authority of client certificates was removed after this connection was made: connect again"
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

    def _is_still_trusted(self, certificate: bytes) -> bool:
        authorities = self._certificates.current.client_authorities
        return authorities is not None and _is_signed_by_one(certificate, authorities)

    def _open(self) -> frozenset[tuple[Endpoint, str]]:
        host, _, port = self._address().rpartition(":")
        return frozenset() if host == "unix" else frozenset(_connections(int(port)))


@lru_cache(_PARSED)
def _expires(pem: bytes) -> float:
    from cryptography import x509  # noqa: PLC0415  # it costs a service without certificates time and memory

    return x509.load_pem_x509_certificate(pem).not_valid_after_utc.timestamp()


@lru_cache(_PARSED)
def _is_signed_by_one(pem: bytes, authorities: bytes) -> bool:
    """Say whether one of the authorities has signed a certificate itself, so that a handshake would accept it again.

    What would need more of a handshake is a no: certificates between, and authorities with limits of their own.
    """
    from cryptography import x509  # noqa: PLC0415
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415

    certificate, now = x509.load_pem_x509_certificate(pem), datetime.now(UTC)
    for each in x509.load_pem_x509_certificates(authorities):
        limits = {extension.value.__class__ for extension in each.extensions} - {
            x509.BasicConstraints,
            x509.KeyUsage,
            x509.SubjectKeyIdentifier,
            x509.AuthorityKeyIdentifier,
            x509.SubjectAlternativeName,
            x509.CRLDistributionPoints,
            x509.AuthorityInformationAccess,
        }
        if limits or not each.not_valid_before_utc <= now < each.not_valid_after_utc or not _may_sign(each):
            continue
        with suppress(ValueError, TypeError, InvalidSignature):
            certificate.verify_directly_issued_by(each)
            return True
    return False


def _may_sign(authority: x509.Certificate) -> bool:
    from cryptography import x509  # noqa: PLC0415

    try:
        if not authority.extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
            return False
        return authority.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    except x509.ExtensionNotFound as missing:
        # Without a list of its usages, a key may be used for each.
        return missing.oid == x509.KeyUsage.oid


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


MOST_DESCRIPTORS = 65_536
OWN_DESCRIPTORS = 128
"""File descriptors that are kept for the files of the policy, for the processes that check it, and for the log."""


def raise_descriptor_limit() -> None:
    """Raise the limit of open files as far as this user may, at most to `MOST_DESCRIPTORS`.

    Systems start programs with 1,024, for the sake of older ones that could not handle more.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def most_connections() -> int:
    """Return how many connections there may be at once. gRPC closes more at once; without a limit they would hang."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    descriptors = MOST_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft
    return max(1, descriptors - OWN_DESCRIPTORS, descriptors // 2)


_NO_TOKEN = "the call has no credentials: send `authorization: Bearer TOKEN`"
_logger = logging.getLogger(__name__)


class Guard:
    """Authenticates calls, except those of the `open` methods.

    `authentication` returns the current one, which knows callers; None if any caller may call anything. With
    `certificates`, every connection has one, which has to be valid, and by which a caller may be known.
    """

    def __init__(
        self,
        authentication: Callable[[], Authentication | None],
        *,
        certificates: ClientCertificates | None,
        open_methods: Collection[str],
        metrics: CallMetrics,
    ) -> None:
        self._metrics = metrics
        self._authentication = authentication
        self._certificates = certificates
        self._open = frozenset(open_methods)
        self._refusals = LogInterval()

    def guard_call(self, details: grpc.HandlerCallDetails, handler: Handler) -> Handler | ServiceError:
        """Return the handler of a call, or the error of a call that is to be refused, which is not counted yet.

        A certificate is only known once the handler runs. A token is checked before that. The rights of a stream are
        checked again before each of its replies.
        """
        method = details.method
        knows = self._authentication() is not None
        if method in self._open or not (knows or self._certificates):
            return handler
        authorization = _authorization(details.invocation_metadata) if knows else None
        if authorization is None and self._certificates:
            by_certificate = partial(self._check_certificate, self._certificates, method)
            return _checked_first(handler, partial(self._end_refused, by_certificate, method))
        by_token = partial(self._check_token, authorization, method)
        try:
            by_token()
        except ServiceError as error:
            return error
        if handler.response_streaming:
            return _checked_first(handler, partial(self._end_refused, lambda _context: by_token(), method))
        return handler

    def refuse(self, error: ServiceError, method: str) -> Handler:
        """Count a call that is refused, and return its handler."""
        self._note(error, method)
        return refusing(error)

    def _check_token(self, authorization: str | None, method: str) -> None:
        if authentication := self._authentication():
            if authorization is None:
                raise Unauthenticated("NO_CREDENTIALS", _NO_TOKEN)
            _check_right(authentication.by_token(authorization), right_of(method))

    def _check_certificate(self, certificates: ClientCertificates, method: str, context: Context) -> None:
        names = certificates.names(context)
        if authentication := self._authentication():
            _check_right(authentication.by_certificate(names), right_of(method))

    async def _end_refused(self, check: Callable[[Context], None], method: str, context: Context) -> None:
        try:
            check(context)
        except ServiceError as error:
            self._note(error, method)
            await abort(context, refusal(error))

    def _note(self, error: ServiceError, method: str) -> None:
        self._metrics.count_refusal(method, error.code.name, error.reason)
        if happened := self._refusals.due(error.reason):
            words = "a call of %s is refused: %s (such calls since the last such line: %d)"
            about = fields(method=method.rpartition("/")[2], code=error.code.name, reason=error.reason)
            _logger.warning(words, method, error.message, happened, extra=about)


def _check_right(caller: Caller, right: Right | None) -> None:
    logs.note(caller=caller.name)
    check_right(caller, right)


def _authorization(metadata: Any) -> str | None:
    for key, value in metadata:
        if key == "authorization":
            return str(value)
    return None


def _checked_first(handler: Any, check: Callable[[Context], Awaitable[None]]) -> Handler:
    """Return a handler that checks the caller before the request is read, and before each reply of a stream."""
    answer: Any = handler.stream_stream or handler.stream_unary

    async def stream(requests: Any, context: Context) -> AsyncIterator[Any]:
        await check(context)
        async with aclosing(answer(requests, context)) as replies:
            async for reply in replies:
                await check(context)
                yield reply

    async def single(requests: Any, context: Context) -> Any:
        await check(context)
        return await answer(requests, context)

    if handler.response_streaming:
        return grpc.stream_stream_rpc_method_handler(stream, handler.request_deserializer, handler.response_serializer)
    return grpc.stream_unary_rpc_method_handler(single, handler.request_deserializer, handler.response_serializer)
