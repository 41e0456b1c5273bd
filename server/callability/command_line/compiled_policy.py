"""A policy that a command compiles in its own process, to look at it or to write its bundle."""

from __future__ import annotations

from pathlib import Path

from callability.command_line.options import print_findings, refuse
from callability.files.shipped_policy import shipped_policy
from callability.policy.loading import Check, Policy, rules_at


def viewed(path: Path | None) -> Policy:
    """Return the policy in a directory or a bundle to look at its rules, with warnings about them on standard error.

    Its tests are not read, and its diagrams are not confirmed. A policy that is refused exits with code 1.
    """
    policy = accepted(rules_at(path or shipped_policy()))
    print_findings(policy.warnings)
    return policy


def accepted(check: Check) -> Policy:
    """Return the policy of a check, or print the findings that refuse it and exit with code 1."""
    if check.policy is None:
        refuse(check.findings, "the policy is refused")
    return check.policy
