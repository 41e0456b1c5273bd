"""The callers file: tokens and certificate names of each caller, and its rights.

What a request can be refused for.

InvalidRequest, InvalidName (of the kernel) are INVALID_ARGUMENT: the whole request, or, in a batch, the item.

ServiceError            a gRPC code, a stable reason and a sentence
├── Unauthenticated     UNAUTHENTICATED: the service does not know who calls
├── NotPermitted        PERMISSION_DENIED: the caller has no right to the call
├── TooManyAtOnce       RESOURCE_EXHAUSTED: the service already does as much as it may at a time
├── ShuttingDown        UNAVAILABLE: the service is being stopped
└── InternalError       INTERNAL: a fault of the service; what went wrong is in its log only

What a certificate calls its holder: DNS names, URIs and IP addresses. No name stands for one of another kind.

The rights of callers, and the right that each method needs.

Who calls, by the bearer token of a call or the certificate of its connection, and whether it has the right.

The callers file while the service runs: an edit takes effect if it has no errors.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import logging
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

import grpc

from callability.contract.finding import (
    Finding,
    Place,
    Severity,
    as_code,
    did_you_mean,
    has_errors,
    in_order,
    line,
    list_names,
)
from callability.files import document
from callability.files.document import DocumentSequence, Node, Scalar
from callability.files.watching import looks


class ServiceError(Exception):
    """An error that the service answers with: `code` is gRPC's, `reason` a stable name in upper case."""

    code = grpc.StatusCode.UNKNOWN

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class Unauthenticated(ServiceError):
    """The caller has to send credentials that the service knows."""

    code = grpc.StatusCode.UNAUTHENTICATED


class NotPermitted(ServiceError):
    """The operator has to grant the caller a right."""

    code = grpc.StatusCode.PERMISSION_DENIED


class TooManyAtOnce(ServiceError):
    """The caller has to wait until others have been answered."""

    code = grpc.StatusCode.RESOURCE_EXHAUSTED


class ShuttingDown(ServiceError):
    """The caller has to ask another instance, or this one again after its restart."""

    code = grpc.StatusCode.UNAVAILABLE

    def __init__(self) -> None:
        super().__init__("SHUTTING_DOWN", "the service is shutting down")


class InternalError(ServiceError):
    """The service failed; the caller can do nothing about it."""

    code = grpc.StatusCode.INTERNAL

    def __init__(self) -> None:
        super().__init__("INTERNAL", "the service failed; its log says why")


_DNS = re.compile(r"[A-Za-z0-9_*-]+(\.[A-Za-z0-9_*-]+)*")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+")
PROPERTIES = {"dns": "peer_dns", "uri": "peer_uri", "ip": "peer_ip"}
"""The property in which gRPC reports the names of a kind. Its list of all names mixes kinds and the Common Name."""


@dataclass(frozen=True, slots=True)
class CertificateName:
    """A subject alternative name, and its kind: `dns`, `uri` or `ip`."""

    kind: str
    value: str


class NotAName(Exception):
    """A text in the callers file names no certificate. Its text is what to write."""


def parse_name(text: str) -> CertificateName:
    """Return the name that an entry of the callers file stands for: `dns:`, `uri:` or `ip:` and it; or a DNS name.

    Raises:
        NotAName: it is not a name of its kind.
    """
    kind, found, value = text.partition(":")
    if not found or kind not in PROPERTIES:
        kind, value = "dns", text
    match kind:
        case "dns" if _DNS.fullmatch(value) and not _is_address(value):
            return CertificateName(kind, value.lower())
        case "uri" if _URI.fullmatch(value):
            return CertificateName(kind, value)
        case "ip" if _is_address(value):
            return CertificateName(kind, str(ipaddress.ip_address(value)))
    if _is_address(value):
        raise NotAName(f"write `ip:{value}` for an address")
    if "://" in value:
        raise NotAName(f"write `uri:{value}` for a URI")
    raise NotAName("write `dns:NAME`, `uri:URI` or `ip:ADDRESS`")


def presented_names(properties: Mapping[str, Iterable[bytes]]) -> Iterator[CertificateName]:
    """Return the names in the certificate of a connection, whose properties gRPC reports."""
    for kind, key in PROPERTIES.items():
        for name in properties.get(key, ()):
            value = name.decode(errors="replace")
            if kind == "ip":
                yield CertificateName(kind, str(ipaddress.ip_address(value)))
            else:
                yield CertificateName(kind, value.lower() if kind == "dns" else value)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


class Right(StrEnum):
    """What a caller may call."""

    CHECK = "check"
    EXPLAIN = "explain"
    POLICY = "policy"
    VALIDATE = "validate"
    WATCH = "watch"


METHODS: Mapping[str, Right] = {
    "CheckTool": Right.CHECK,
    "CheckTools": Right.CHECK,
    "ClassifyLoad": Right.CHECK,
    "ClassifyEnable": Right.CHECK,
    "ExplainTool": Right.EXPLAIN,
    "GetPolicy": Right.POLICY,
    "ValidatePolicy": Right.VALIDATE,
    "WatchPolicy": Right.WATCH,
}
"""The right that each method of the contract needs."""


def right_of(path: str) -> Right | None:
    """Return the right that a method needs, by its path on the wire; None for one that any known caller may call."""
    return METHODS.get(path.rpartition("/")[2]) if path.startswith("/callability.") else None


TOKENS = 2
"""Tokens of a caller that are valid at a time: the old one and the new one, during a rotation."""
_DIGEST = re.compile("[0-9a-fA-F]{64}")
CALLER_KEYS = ("tokens", "certificates", "may")
TOKEN_KEYS = ("sha256", "expires")


@dataclass(frozen=True, slots=True)
class Token:
    """A token, by its SHA-256; it is valid before `expires`."""

    sha256: bytes
    expires: datetime


@dataclass(frozen=True, slots=True)
class Caller:
    """A caller: its name in logs and metrics, what it may call, and how it is known."""

    name: str
    rights: frozenset[Right]
    tokens: tuple[Token, ...] = ()
    certificates: tuple[CertificateName, ...] = ()


@dataclass(frozen=True, slots=True)
class Callers:
    """The callers of one reading of the file, the warnings in it, and the digest of its bytes."""

    every: tuple[Caller, ...]
    warnings: tuple[Finding, ...] = ()
    digest: str = ""


class CallersRefused(Exception):
    """A callers file with errors. It carries all findings, and the digest of what was read."""

    def __init__(self, findings: Iterable[Finding], digest: str = "") -> None:
        self.findings = in_order(findings)
        self.digest = digest
        super().__init__("\n".join(map(str, self.findings)))


def load_callers(path: Path, now: datetime | None = None) -> Callers:
    """Read a callers file: JSON if its name ends in `.json`, YAML 1.2 otherwise. `now` decides which tokens are valid.

    Raises:
        CallersRefused: it cannot be read, or has errors.
    """
    digest = ""
    try:
        data = document.read_bytes(path)
        digest = document.digest(data)
        root = document.parse(data, str(path))
    except document.Refused as refused:
        raise CallersRefused(refused.findings, digest) from refused
    reading = _Reading(now or datetime.now(UTC))
    every = tuple(reading.callers(root))
    findings = in_order(reading.findings)
    if has_errors(findings):
        raise CallersRefused(findings, digest)
    return Callers(every, findings, digest)


class _Reading:
    """Reads nodes, and collects findings."""

    def __init__(self, now: datetime) -> None:
        self.findings: list[Finding] = []
        self._now = now
        self._owners: dict[object, str] = {}
        """The caller of each token and each certificate name."""

    def callers(self, root: Node) -> Iterator[Caller]:
        keys = self._mapping(root, "the file", ("callers",))
        if "callers" not in keys:
            if isinstance(root, document.DocumentMapping):
                self._find(root.place, "missing-key", "the file has no `callers`", "write `callers: {}` for none")
            return
        node = keys["callers"][1]
        if not isinstance(node, document.DocumentMapping):
            self._find(node.place, "wrong-type", "`callers` is not a mapping of names to callers")
            return
        for name, each in node.entries:
            yield self._caller(name, each)

    def _caller(self, name: Scalar, node: Node) -> Caller:
        subject = f"caller {as_code(str(name.value))}"
        if not isinstance(name.value, str) or not name.value.strip() or not name.value.isprintable():
            self._find(name.place, "bad-caller-name", f"{subject} has a name that is empty or cannot be printed")
        keys = self._mapping(node, subject, CALLER_KEYS)
        rights = frozenset(self._rights(keys, subject, node.place))
        tokens = tuple(self._tokens(keys, subject, str(name.value)))
        certificates = tuple(self._certificates(keys, subject, str(name.value)))
        if not tokens and not certificates and {"tokens", "certificates"}.isdisjoint(keys):
            hint = "give it `tokens` or `certificates`"
            self._find(name.place, "unknown-caller", f"{subject} has no token and no certificate", hint)
        return Caller(str(name.value), rights, tokens, certificates)

    def _rights(self, keys: Mapping[str, tuple[Scalar, Node]], subject: str, place: Place) -> Iterator[Right]:
        if "may" not in keys:
            self._find(place, "missing-key", f"{subject} has no `may`", f"list what it may call: {list_names(Right)}")
            return
        for item in self._items(keys["may"][1], f"`may` of {subject}"):
            if item.value in [*Right]:
                yield Right(str(item.value))
            else:
                sentence = f"{as_code(str(item.value))} in `may` of {subject} is not a right"
                self._find(item.place, "unknown-value", sentence, did_you_mean(str(item.value), Right))

    def _certificates(
        self, keys: Mapping[str, tuple[Scalar, Node]], subject: str, caller: str
    ) -> Iterator[CertificateName]:
        if "certificates" not in keys:
            return
        for item in self._items(keys["certificates"][1], f"`certificates` of {subject}"):
            if not isinstance(item.value, str) or not item.value:
                self._find(item.place, "wrong-type", f"a name in `certificates` of {subject} is not text")
                continue
            try:
                name = parse_name(item.value)
            except NotAName as wanted:
                sentence = f"{as_code(item.value)} in `certificates` of {subject} is no name of a certificate"
                self._find(item.place, "bad-certificate-name", sentence, str(wanted))
                continue
            if self._is_owned(name, item.place, caller, "certificate name"):
                yield name

    def _tokens(self, keys: Mapping[str, tuple[Scalar, Node]], subject: str, caller: str) -> Iterator[Token]:
        if "tokens" not in keys:
            return
        node = keys["tokens"][1]
        if not isinstance(node, DocumentSequence) or not node.items:
            self._find(node.place, "wrong-type", f"`tokens` of {subject} is not a list of tokens")
            return
        valid = 0
        for item in node.items:
            token = self._token(item, subject)
            if token is None or not self._is_owned(token.sha256, item.place, caller, "token"):
                continue
            valid += token.expires > self._now
            if token.expires <= self._now:
                sentence = f"a token of {subject} expired at {token.expires.isoformat()}"
                self._find(item.place, "expired-token", sentence, "remove it", Severity.WARNING)
            elif valid > TOKENS:
                sentence = f"{subject} has more than {TOKENS} tokens that have not expired"
                self._find(item.place, "too-many-tokens", sentence, "remove the oldest one")
            yield token

    def _token(self, node: Node, subject: str) -> Token | None:
        keys = self._mapping(node, f"a token of {subject}", TOKEN_KEYS)
        if missing := [key for key in TOKEN_KEYS if key not in keys]:
            if isinstance(node, document.DocumentMapping):
                self._find(node.place, "missing-key", f"a token of {subject} has no {list_names(missing)}")
            return None
        digest, expires = keys["sha256"][1], keys["expires"][1]
        if not isinstance(digest, Scalar) or not _DIGEST.fullmatch(str(digest.value)):
            sentence = f"`sha256` of a token of {subject} is not 64 hexadecimal digits"
            self._find(digest.place, "bad-digest", sentence, "quote it if it has digits only")
            return None
        at = _time(expires)
        if at is None:
            sentence = f"`expires` of a token of {subject} is not a time with its offset from UTC"
            self._find(expires.place, "bad-time", sentence, "write for example `2027-01-31T12:00:00Z`")
            return None
        return Token(bytes.fromhex(str(digest.value)), at)

    def _is_owned(self, identity: object, place: Place, caller: str, what: str) -> bool:
        """Note whose an identity is; one that is named twice identifies nobody."""
        owner = self._owners.get(identity)
        if owner is None:
            self._owners[identity] = caller
            return True
        sentence = f"the {what} is also that of caller {as_code(owner)}"
        self._find(place, "shared-identity", sentence, "each identifies one caller, and is listed once")
        return False

    def _items(self, node: Node, subject: str) -> Iterator[Scalar]:
        if not isinstance(node, DocumentSequence) or not node.items:
            self._find(node.place, "wrong-type", f"{subject} is not a list with an entry")
            return
        for item in node.items:
            if isinstance(item, Scalar):
                yield item
            else:
                self._find(item.place, "wrong-type", f"an entry of {subject} is not text")

    def _mapping(self, node: Node, subject: str, known: tuple[str, ...]) -> dict[str, tuple[Scalar, Node]]:
        if not isinstance(node, document.DocumentMapping):
            self._find(node.place, "wrong-type", f"{subject} is not a mapping with {list_names(known)}")
            return {}
        keys = {str(key.value): (key, value) for key, value in node.entries}
        for name, (key, _) in keys.items():
            if name not in known:
                sentence = f"unknown key {as_code(name)} in {subject}"
                self._find(key.place, "unknown-key", sentence, did_you_mean(name, known))
        return keys

    def _find(
        self, place: Place, code: str, sentence: str, hint: str = "", severity: Severity = Severity.ERROR
    ) -> None:
        self.findings.append(Finding(place, code, sentence, hint, severity))


def _time(node: Node) -> datetime | None:
    if not isinstance(node, Scalar) or not isinstance(node.value, str):
        return None
    try:
        at = datetime.fromisoformat(node.value)
    except ValueError:
        return None
    return at if at.tzinfo is not None else None


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
            self._mask(token.sha256): _Known(token.sha256, token.expires.timestamp(), caller)
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
        known = self._tokens.get(self._mask(digest))
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

    def _mask(self, digest: bytes) -> bytes:
        """Return what a digest is looked up by: how long a look-up takes says nothing about the digests in the file."""
        return hashlib.blake2b(digest, key=self._key, digest_size=16).digest()


def check_right(caller: Caller, right: Right | None) -> None:
    """Check that a caller has a right; None is that of every known caller.

    Raises:
        NotPermitted: it does not.
    """
    if right is not None and right not in caller.rights:
        raise NotPermitted("RIGHT_MISSING", f"the caller has no right to `{right}`: the operator grants it")


_logger = logging.getLogger(__name__)


class WatchedCallers:
    """The last good state of a callers file."""

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()
        self.callers = load_callers(path)
        self.seen = self.callers.digest
        """The digest of the file as it was seen last, in effect or refused."""
        self.authentication = Authentication(self.callers)
        _log(logging.WARNING, self.callers.warnings)
        self.changed: Callable[[bool], None] = lambda in_effect: None
        """Called after each edit, with whether it is in effect."""

    async def follow(self) -> None:
        """Read the file again when it changes, for ever."""
        async for _ in looks(lambda: (self._path,)):
            try:
                await asyncio.to_thread(self._look)
            except Exception:
                # For want of memory, say. The next look tries again.
                self.seen = ""
                _logger.exception("the callers could not be read")

    def _look(self) -> None:
        if (seen := _digest(self._path)) == self.seen:
            return
        self.seen = seen
        found = _load(self._path)
        if isinstance(found, CallersRefused):
            _log(logging.ERROR, found.findings)
            _logger.error("the edit of the callers is refused: the previous state stays in effect")
            self.changed(False)
            return
        self.seen = found.digest
        self.callers, self.authentication = found, Authentication(found)
        _log(logging.WARNING, found.warnings)
        _logger.info("the edit of the callers is applied: %d callers", len(found.every))
        self.changed(True)


def _load(path: Path) -> Callers | CallersRefused:
    try:
        return load_callers(path)
    except CallersRefused as refused:
        return refused


def _digest(path: Path) -> str:
    """Return the digest of a file; empty if it cannot be read."""
    try:
        return document.digest(document.read_bytes(path))
    except document.Refused:
        return ""


def _log(level: int, findings: Iterable[Finding]) -> None:
    for each in findings:
        _logger.log(level, "%s", line(each))
