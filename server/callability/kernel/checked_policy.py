"""What the check of a policy hands to whatever serves it."""

from __future__ import annotations

import pickle
from dataclasses import dataclass

from callability.finding import Finding


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

    def packed(self) -> bytes:
        """Return it as bytes for another process of this program."""
        return pickle.dumps(self)


def unpacked(data: bytes) -> CheckedPolicy:
    """Return what another process of this program has packed."""
    checked = pickle.loads(data)
    assert isinstance(checked, CheckedPolicy)
    return checked
