"""How the gateway's two files and its policy stand: what was read, and whether a later edit could not be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class FileStatus:
    """What `upstream_servers` says of the files; it names no server, since agents may see some only (A.7)."""

    approvals_readable: bool = True
    """Whether there is a state of the approvals; without one every approval is unknown."""
    config_broken: bool = False
    """Whether the config was edited since, and the edit is not sound."""
    approvals_broken: bool = False
    """Whether the approvals were edited since, and the edit cannot be read."""
    policy_broken: Callable[[], bool] = lambda: False
    """Says whether the policy in this process was edited since, and the edit is not sound."""

    def messages(self) -> dict[str, str]:
        """Return a sentence for each that does not stand as it is written."""
        messages = {}
        if self.config_broken:
            messages["config"] = "the config was edited and is not sound: what it said before still holds"
        if not self.approvals_readable:
            messages["approvals"] = "the approvals file could not be read: every approval is unknown"
        elif self.approvals_broken:
            messages["approvals"] = "the approvals file was edited and cannot be read: what it said before still holds"
        if self.policy_broken():
            messages["policy"] = "the policy was edited and is not sound: what it said before still holds"
        return messages
