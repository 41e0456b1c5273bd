"""The callers file: tokens and certificate names of each caller, and its rights."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from callability import document
from callability.document import Node, Scalar, Sequence
from callability.finding import Finding, Place, Severity, did_you_mean, has_errors, in_order, listed, shown
from callability.service.callers.certificate_names import CertificateName, NotAName, parse_name
from callability.service.callers.right import Right

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
            if isinstance(root, document.Mapping):
                self._find(root.place, "missing-key", "the file has no `callers`", "write `callers: {}` for none")
            return
        node = keys["callers"][1]
        if not isinstance(node, document.Mapping):
            self._find(node.place, "wrong-type", "`callers` is not a mapping of names to callers")
            return
        for name, each in node.entries:
            yield self._caller(name, each)

    def _caller(self, name: Scalar, node: Node) -> Caller:
        subject = f"caller {shown(str(name.value))}"
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
            self._find(place, "missing-key", f"{subject} has no `may`", f"list what it may call: {listed(Right)}")
            return
        for item in self._items(keys["may"][1], f"`may` of {subject}"):
            if item.value in [*Right]:
                yield Right(str(item.value))
            else:
                sentence = f"{shown(str(item.value))} in `may` of {subject} is not a right"
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
                sentence = f"{shown(item.value)} in `certificates` of {subject} is no name of a certificate"
                self._find(item.place, "bad-certificate-name", sentence, str(wanted))
                continue
            if self._is_owned(name, item.place, caller, "certificate name"):
                yield name

    def _tokens(self, keys: Mapping[str, tuple[Scalar, Node]], subject: str, caller: str) -> Iterator[Token]:
        if "tokens" not in keys:
            return
        node = keys["tokens"][1]
        if not isinstance(node, Sequence) or not node.items:
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
            if isinstance(node, document.Mapping):
                self._find(node.place, "missing-key", f"a token of {subject} has no {listed(missing)}")
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
        sentence = f"the {what} is also that of caller {shown(owner)}"
        self._find(place, "shared-identity", sentence, "each identifies one caller, and is listed once")
        return False

    def _items(self, node: Node, subject: str) -> Iterator[Scalar]:
        if not isinstance(node, Sequence) or not node.items:
            self._find(node.place, "wrong-type", f"{subject} is not a list with an entry")
            return
        for item in node.items:
            if isinstance(item, Scalar):
                yield item
            else:
                self._find(item.place, "wrong-type", f"an entry of {subject} is not text")

    def _mapping(self, node: Node, subject: str, known: tuple[str, ...]) -> dict[str, tuple[Scalar, Node]]:
        if not isinstance(node, document.Mapping):
            self._find(node.place, "wrong-type", f"{subject} is not a mapping with {listed(known)}")
            return {}
        keys = {str(key.value): (key, value) for key, value in node.entries}
        for name, (key, _) in keys.items():
            if name not in known:
                sentence = f"unknown key {shown(name)} in {subject}"
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
