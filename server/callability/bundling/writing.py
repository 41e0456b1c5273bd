"""The bundle of a policy that was checked. A policy whose bundle cannot be written is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from callability.bundling.payload import largest_payload, payload_of
from callability.files.policy_source import PolicyFile
from callability.finding import Finding, Place, in_order
from callability.kernel.bundle_wire import cost_of_payload, max_cost
from callability.kernel.checked_policy import CheckedPolicy
from callability.kernel.envelope import MAX_BYTES, enveloped
from callability.policy.deciding.not_decided import NotDecided
from callability.policy.loading import Check, Policy

ROOM = 4_096
"""Bytes that are left for signatures."""
_SHORTEN = "shorten lists of names and values"
_LEAVE_OUT = f"{_SHORTEN}, or leave its rule files out"


class NotWritten(Exception):
    """A policy that has no bundle. It carries the finding; its text is the finding's line."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(str(finding))
        self.finding = finding


def checked_payload(policy: Policy, shown: str, sequence: int = 0, files: Sequence[PolicyFile] = ()) -> bytes:
    """Return the payload of a policy, with its files if they are given; `shown` is its directory as findings name it.

    Raises:
        NotWritten: the reference evaluator decides otherwise than a diagram, or a bundle would be too large.
    """
    try:
        payload = payload_of(policy, sequence, files)
    except NotDecided as error:
        raise NotWritten(error.finding) from None
    if too_large := _too_large(payload, shown, hint=_LEAVE_OUT if files else _SHORTEN):
        raise NotWritten(too_large)
    return payload


def with_size(check: Check, shown: str) -> Check:
    """Return a check that refuses a policy whose bundle would be too large, since nothing serves such a policy.

    It is stricter than `checked_payload` by a few bytes, so that what passes can be served.
    """
    too_large = _too_large(largest_payload(check.policy), shown) if check.policy else None
    return _refused(check, too_large) if too_large else check


def with_bundle(check: Check, shown: str) -> CheckedPolicy:
    """Return the result of a check with the bundle of its policy, unsigned. A policy without a bundle is refused."""
    if check.policy is None:
        return CheckedPolicy(b"", check.findings)
    try:
        return checked_policy(check.policy, shown)
    except NotWritten as error:
        return CheckedPolicy(b"", in_order((*check.findings, error.finding)))


def checked_policy(policy: Policy, shown: str = "the policy") -> CheckedPolicy:
    """Return a policy that was accepted, with its bundle, as what serves it takes it.

    Raises:
        NotWritten: the reference evaluator decides otherwise than a diagram, or the bundle would be too large.
    """
    tests = tuple(f"{name}: {each.case.name}" for name, proved in policy.rule_sets.items() for each in proved.results)
    return CheckedPolicy(enveloped(checked_payload(policy, shown)), policy.warnings, policy.engine, tests)


def _too_large(payload: bytes, shown: str, hint: str = _SHORTEN) -> Finding | None:
    if len(payload) > MAX_BYTES - ROOM:
        sentence = f"its bundle would have {len(payload):,} bytes; the maximum is {MAX_BYTES - ROOM:,}"
    elif (cost := cost_of_payload(payload)) > (most := max_cost(len(payload))):
        sentence = f"the parts of its bundle would cost a reader {cost:,} bytes; the maximum is {most:,}"
    else:
        return None
    return Finding(Place(shown), "bundle-too-large", sentence, hint)


def _refused(check: Check, finding: Finding) -> Check:
    return replace(check, findings=in_order((*check.findings, finding)), policy=None)
