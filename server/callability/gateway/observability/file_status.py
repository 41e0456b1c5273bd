"""The status of the watched files and the policy: whether they were read, and whether a later edit was refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class FileStatus:
    """What `upstream_servers` says about the files; it names no server, because an agent may see only some (A.7)."""

    approvals_readable: bool = True
    """Whether the approvals were ever read; if not, every approval is unknown."""
    config_broken: bool = False
    """Whether the latest edit of the config was refused."""
    approvals_broken: bool = False
    """Whether the latest edit of the approvals cannot be read."""
    policy_broken: Callable[[], bool] = lambda: False
    """Says whether the latest edit of the policy in this process was refused."""

    def messages(self) -> dict[str, str]:
        """Return a sentence about each that is not in effect as it is written."""
        messages = {}
        if self.config_broken:
            messages["config"] = "the edited config has errors: the last good one stays in effect"
        if not self.approvals_readable:
            messages["approvals"] = "the approvals file could not be read: every approval is unknown"
        elif self.approvals_broken:
            messages["approvals"] = "the edited approvals file cannot be read: the last good one stays in effect"
        if self.policy_broken():
            messages["policy"] = "the edited policy has errors: the last good one stays in effect"
        return messages
