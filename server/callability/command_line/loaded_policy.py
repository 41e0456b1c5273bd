"""A policy that a command loads to serve it, with its bundle; commands that only look at a policy do without."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from callability.bundling.check_worker import output
from callability.bundling.writing import with_bundle
from callability.command_line.options import accepted
from callability.finding import finding_lines
from callability.policy.loading import Policy, check_source, source_in
from callability.policy.shipped import shipped_policy


@dataclass(frozen=True, slots=True)
class Loaded:
    """A policy, the state of the files that it was loaded from, and its bundle."""

    policy: Policy
    digest: str
    bundle: bytes
    checked: bytes
    """The policy and its bundle as the check of an edit puts them out."""


def loaded_to_serve(directory: Path | None) -> Loaded:
    """Return the policy in a directory with the digest of its files, so that edits are noticed, and its bundle.

    Warnings go to the log. A policy that is refused exits with code 1.
    """
    written = source_in(directory or shipped_policy())
    check, bundle = with_bundle(check_source(written), written.shown)
    policy = accepted(check)
    for each in finding_lines(policy.warnings):
        logging.getLogger(__name__).warning("%s", each)
    return Loaded(policy, written.digest, bundle, output(check, bundle))
