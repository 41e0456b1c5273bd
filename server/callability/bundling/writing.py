"""The bundle of a policy that was checked. A policy whose bundle cannot be written is refused."""

from __future__ import annotations

from dataclasses import replace

from callability.bundle.envelope import MAX_BYTES, enveloped
from callability.bundling.payload import payload_of
from callability.finding import Finding, Place, in_order
from callability.policy.deciding.not_decided import NotDecided
from callability.policy.loading import Check, Policy

ROOM = 4_096
"""Bytes that are left for signatures."""


class NotWritten(Exception):
    """A policy that has no bundle. It carries the finding; its text is the finding's line."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(str(finding))
        self.finding = finding


def checked_payload(policy: Policy, shown: str, sequence: int = 0) -> bytes:
    """Return the payload of a policy; `shown` is its directory as findings name it.

    Raises:
        NotWritten: the reference evaluator decides otherwise than a diagram, or a bundle would be too large.
    """
    try:
        payload = payload_of(policy, sequence)
    except NotDecided as error:
        raise NotWritten(error.finding) from None
    if len(payload) > MAX_BYTES - ROOM:
        sentence = f"its bundle would have {len(payload):,} bytes; the maximum is {MAX_BYTES - ROOM:,}"
        raise NotWritten(Finding(Place(shown), "bundle-too-large", sentence, "shorten lists of names and values"))
    return payload


def with_bundle(check: Check, shown: str) -> tuple[Check, bytes]:
    """Return a check with the bundle of its policy, unsigned. Without a bundle, the check has no policy either."""
    if check.policy is None:
        return check, b""
    try:
        return check, enveloped(checked_payload(check.policy, shown))
    except NotWritten as error:
        return replace(check, findings=in_order((*check.findings, error.finding)), policy=None), b""
