"""A policy that a command serves: checked in a process of its own, as each edit of it is."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from pathlib import Path

from callability.command_line.options import refuse
from callability.files.policy_origin import PolicyDirectory, PolicyOrigin
from callability.files.policy_source import PolicySource
from callability.files.shipped_policy import shipped_policy
from callability.finding import finding_lines
from callability.kernel.checked_policy import CheckedPolicy
from callability.service.edits import checked_source


@dataclass(frozen=True, slots=True)
class Loaded:
    """A policy that was accepted, and the source that it was loaded from."""

    checked: CheckedPolicy
    source: PolicySource


def loaded_to_serve(directory: Path | None) -> Loaded:
    """Return the policy in a directory, by default the shipped one, as `loaded_from` does."""
    return loaded_from(PolicyDirectory(directory or shipped_policy()))


def loaded_from(origin: PolicyOrigin) -> Loaded:
    """Return the policy of an origin with its source, so that edits are noticed.

    Warnings go to the log. A policy that is refused exits with code 1.
    """
    source = origin.source()
    checked = asyncio.run(checked_source(source))
    if not checked.bundle:
        refuse(checked.findings, "the policy is refused")
    origin.accepted(source)
    for each in finding_lines(checked.findings):
        logging.getLogger(__name__).warning("%s", each)
    return Loaded(checked, source)
