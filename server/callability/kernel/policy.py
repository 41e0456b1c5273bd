"""The policy in a bundle, and what the check of a policy hands to whatever serves it."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from callability.bundle.v1 import bundle_pb2 as pb
from callability.contract.enum_words import LIFTED_BY
from callability.contract.finding import Finding, as_code
from callability.contract.vocabulary import Action, LiftedBy
from callability.kernel.conditions import SEMANTICS
from callability.kernel.envelope import (
    BundleRefused,
    Envelope,
    Malformed,
    RefusalCode,
    cost_of_payload,
    invalid,
    max_cost,
    open_bundle,
)
from callability.kernel.rule_set import RuleSet
from callability.kernel.rule_set_reading import QUESTIONS, rule_set_of


@dataclass(frozen=True, slots=True)
class CheckedPolicy:
    """A policy that was checked: its bundle, all findings in order, and what confirmed its diagrams.

    The bundle is empty if the policy is refused. The findings of one that is accepted are warnings.
    """

    bundle: bytes
    findings: tuple[Finding, ...] = ()
    engine: str = ""
    tests: tuple[str, ...] = ()
    """The tests that it passed: each as `question: name`."""

    def pack(self) -> bytes:
        """Return it as bytes for another process of this program."""
        return pickle.dumps(self)


def unpack(data: bytes) -> CheckedPolicy:
    """Return what another process of this program has packed."""
    checked = pickle.loads(data)
    assert isinstance(checked, CheckedPolicy)
    return checked


_REVISION_DIGITS = 64


@dataclass(frozen=True, slots=True)
class LocalPolicy:
    """A policy that decides in this process. It is never changed, and threads may share it.

    `digest` is the SHA-256 of the payload in hexadecimal. `key_ids` are the ids in the signatures, valid or not where
    no keys were given. `size` is in bytes.
    """

    revision: str
    semantics: int
    sequence: int
    digest: str
    key_ids: tuple[str, ...]
    size: int
    actions: tuple[Action, ...]
    rule_sets: Mapping[str, RuleSet]

    @property
    def callability(self) -> RuleSet:
        """The rules for why a tool cannot be called."""
        return self.rule_sets["callability"]

    @property
    def load_outcome(self) -> RuleSet:
        """The rules for why the tools of a server did not load."""
        return self.rule_sets["load_outcome"]

    @property
    def enable_outcome(self) -> RuleSet:
        """The rules for how an enable ended."""
        return self.rule_sets["enable_outcome"]


def read(
    data: bytes, *, keys: Mapping[str, bytes] | None = None, accepted_sequence: int = 0, rollback: bool = False
) -> LocalPolicy:
    """Read a bundle, which may come from anybody.

    `keys` are ed25519 public keys of 32 bytes, by key id: one of them must have signed it. Without `keys`, signatures
    are not looked at. `accepted_sequence` is the sequence number of the bundle that was accepted before: a lower one is
    refused, unless `rollback` is asked for.

    Raises:
        BundleRefused: the bundle is damaged, too new, too old, not signed by one of the keys, or contradicts itself.
        MissingCryptography: there are keys, and the extra `bundle` is not installed.
    """
    envelope = open_bundle(data, keys)
    payload = payload_in(envelope, accepted_sequence, rollback=rollback)
    if tuple(each.question for each in payload.rule_sets) != QUESTIONS:
        raise invalid(f"the bundle has not the rule sets {', '.join(QUESTIONS)}")
    return LocalPolicy(
        revision=_revision(payload.revision),
        semantics=payload.semantics,
        sequence=payload.sequence,
        digest=envelope.digest,
        key_ids=envelope.key_ids,
        size=len(data),
        actions=tuple(map(_action, payload.actions)),
        rule_sets={each.question: rule_set_of(each) for each in payload.rule_sets},
    )


def payload_in(envelope: Envelope, accepted_sequence: int = 0, *, rollback: bool = False) -> pb.Payload:
    """Return the payload in an envelope; its content is not checked.

    Raises:
        BundleRefused: it is malformed, has other semantics, or a lower sequence number than `accepted_sequence`.
    """
    try:
        if cost_of_payload(envelope.payload) > max_cost(len(envelope.payload)):
            raise invalid("the payload of the bundle has too many parts for its size")
        payload = pb.Payload.FromString(envelope.payload)
    except (Malformed, DecodeError):
        raise invalid("the payload of the bundle cannot be read") from None
    _check_version(payload, accepted_sequence, rollback=rollback)
    return payload


def _check_version(payload: pb.Payload, accepted_sequence: int, *, rollback: bool) -> None:
    if payload.semantics != SEMANTICS:
        newer = "update this program" if payload.semantics > SEMANTICS else "build it again"
        sentence = f"the bundle has semantics {payload.semantics}, and this program decides by {SEMANTICS}: {newer}"
        raise BundleRefused(RefusalCode.UNSUPPORTED_SEMANTICS, sentence)
    if payload.sequence < accepted_sequence and not rollback:
        sentence = f"the bundle has sequence {payload.sequence}, which is older than {accepted_sequence}"
        raise BundleRefused(RefusalCode.OLDER_SEQUENCE, sentence)


def _revision(text: str) -> str:
    if len(text) != _REVISION_DIGITS or not set(text) <= set("0123456789abcdef"):
        raise invalid("the revision is not a SHA-256 in hexadecimal")
    return text


_OWNERS = LIFTED_BY.members(LiftedBy)


def _action(message: pb.Action) -> Action:
    if not message.name or message.owner not in _OWNERS:
        raise invalid(f"action {as_code(message.name)} contradicts itself")
    return Action(message.name, _OWNERS[message.owner], message.fact or None, message.phrase, message.labels)
