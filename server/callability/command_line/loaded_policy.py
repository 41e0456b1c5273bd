"""A policy that a command loads to serve it, with its bundle; commands that only look at a policy do without."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from callability.bundling.check_worker import output
from callability.bundling.writing import with_bundle
from callability.command_line.options import accepted
from callability.finding import finding_lines
from callability.policy.loading import Policy, check_source
from callability.policy.origin import PolicyDirectory, PolicyOrigin
from callability.policy.reading.policy_source import PolicySource
from callability.policy.shipped import shipped_policy


@dataclass(frozen=True, slots=True)
class Loaded:
    """A policy, the source that it was loaded from, and its bundle."""

    policy: Policy
    source: PolicySource
    bundle: bytes
    checked: bytes
    """The policy and its bundle as the check of an edit puts them out."""


def loaded_to_serve(directory: Path | None) -> Loaded:
    """Return the policy in a directory, by default the shipped one, as `loaded_from` does."""
    return loaded_from(PolicyDirectory(directory or shipped_policy()))


def loaded_from(origin: PolicyOrigin) -> Loaded:
    """Return the policy of an origin with its source, so that edits are noticed, and its bundle.

    Warnings go to the log. A policy that is refused exits with code 1.
    """
    source = origin.source()
    check, bundle = with_bundle(check_source(source), source.shown)
    policy = accepted(check)
    origin.accepted(source)
    for each in finding_lines(policy.warnings):
        logging.getLogger(__name__).warning("%s", each)
    return Loaded(policy, source, bundle, output(check, bundle))
