"""Where a policy is read from, when a service starts and after each edit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from callability.files.policy_source import PolicySource, followed_files, source_in


class PolicyOrigin(Protocol):
    """Where a policy is read from."""

    def followed(self) -> tuple[Path, ...]:
        """Return the paths to watch for edits."""

    def source(self) -> PolicySource:
        """Return the current source."""

    def accepted(self, source: PolicySource) -> None:
        """Note that the policy of a source decides from now on."""


@dataclass(frozen=True, slots=True)
class PolicyDirectory:
    """A directory with rule files."""

    path: Path

    def followed(self) -> tuple[Path, ...]:
        """Return the directory, its files, and new ones."""
        return followed_files(self.path)

    def source(self) -> PolicySource:
        """Return the files in the directory."""
        return source_in(self.path)

    def accepted(self, source: PolicySource) -> None:
        """Do nothing: any edit may follow any other."""
