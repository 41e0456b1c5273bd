"""Who calls, by the bearer token of a call or the certificate of its connection, and whether it has the right."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from callability.service.callers.callers_file import Caller, Callers
from callability.service.callers.certificate_names import CertificateName
from callability.service.callers.right import Right
from callability.service.requests.errors import NotPermitted, Unauthenticated

_SCHEME = "bearer "


@dataclass(frozen=True, slots=True)
class _Known:
    sha256: bytes
    expires: float
    caller: Caller


class Authentication:
    """Knows the callers of one state of the callers file."""

    def __init__(self, callers: Callers, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._tokens = {
            self._masked(token.sha256): _Known(token.sha256, token.expires.timestamp(), caller)
            for caller in callers.every
            for token in caller.tokens
        }
        self._certificates: Mapping[CertificateName, Caller] = {
            name: caller for caller in callers.every for name in caller.certificates
        }

    def by_token(self, authorization: str) -> Caller:
        """Return the caller with the token of an `authorization` header.

        Raises:
            Unauthenticated: it is no bearer token, is unknown or has expired.
        """
        if authorization[: len(_SCHEME)].lower() != _SCHEME:
            raise Unauthenticated("TOKEN_MALFORMED", "the `authorization` of the call is not `Bearer TOKEN`")
        digest = hashlib.sha256(authorization[len(_SCHEME) :].strip().encode()).digest()
        known = self._tokens.get(self._masked(digest))
        if known is None or not hmac.compare_digest(known.sha256, digest):
            raise Unauthenticated("TOKEN_UNKNOWN", "the token of the call is not known")
        if known.expires <= self._clock():
            raise Unauthenticated("TOKEN_EXPIRED", "the token of the call has expired")
        return known.caller

    def by_certificate(self, names: Iterable[CertificateName]) -> Caller:
        """Return the caller whose certificate has one of these names.

        Raises:
            Unauthenticated: no caller has one.
        """
        for name in names:
            if caller := self._certificates.get(name):
                return caller
        raise Unauthenticated("CERTIFICATE_UNKNOWN", "the client certificate of the connection is that of no caller")

    def _masked(self, digest: bytes) -> bytes:
        """Return what a digest is looked up by: how long a look-up takes says nothing about the digests in the file."""
        return hashlib.blake2b(digest, key=self._key, digest_size=16).digest()


def check_right(caller: Caller, right: Right | None) -> None:
    """Check that a caller has a right; None is that of every known caller.

    Raises:
        NotPermitted: it does not.
    """
    if right is not None and right not in caller.rights:
        raise NotPermitted("RIGHT_MISSING", f"the caller has no right to `{right}`: the operator grants it")
