"""The closed sets that the contract fixes, by the names that rule files and MCP answers use."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

UNKNOWN = "unknown"
"""How a fact that could not be read is written where values are written out."""


class LiftedBy(StrEnum):
    """Who can lift a status."""

    USER = "user"
    OPERATOR = "operator"
    UNDETERMINED = "undetermined"
    NONE = "none"


class Retry(StrEnum):
    """Whether trying again can help: never until somebody lifts it, later by itself, or now."""

    NEVER = "never"
    LATER = "later"
    NOW = "now"


class ToolStatus(StrEnum):
    """Why a tool can or cannot be called (spec A.1)."""

    SERVER_DISABLED = "server_disabled"
    DISABLED_BY_CONFIG = "disabled_by_config"
    SERVER_QUARANTINED = "server_quarantined"
    DISABLED_BY_USER = "disabled_by_user"
    PENDING_APPROVAL = "pending_approval"
    DISABLED_UNKNOWN = "disabled_unknown"
    CALLABLE = "callable"

    @property
    def lifted_by(self) -> LiftedBy:
        """Who can lift it (spec A.1)."""
        return _LIFTED_BY[self]

    @property
    def retry(self) -> Retry:
        """Whether trying again can help (spec A.1)."""
        return _RETRY.get(self, Retry.NEVER)


_LIFTED_BY = {
    ToolStatus.SERVER_DISABLED: LiftedBy.USER,
    ToolStatus.DISABLED_BY_CONFIG: LiftedBy.OPERATOR,
    ToolStatus.SERVER_QUARANTINED: LiftedBy.USER,
    ToolStatus.DISABLED_BY_USER: LiftedBy.USER,
    ToolStatus.PENDING_APPROVAL: LiftedBy.USER,
    ToolStatus.DISABLED_UNKNOWN: LiftedBy.UNDETERMINED,
    ToolStatus.CALLABLE: LiftedBy.NONE,
}
_RETRY = {ToolStatus.DISABLED_UNKNOWN: Retry.LATER, ToolStatus.CALLABLE: Retry.NOW}


@dataclass(frozen=True, slots=True)
class Action:
    """Something that can be done about a status: its placeholder, its owner, the fact that it changes, if any, and a
    neutral verb phrase in the infinitive.
    """

    name: str
    owner: LiftedBy
    fact: str | None
    phrase: str


ACTIONS = (
    Action("enable_server", LiftedBy.USER, "server.enabled", "enable the server"),
    Action(
        "edit_config",
        LiftedBy.OPERATOR,
        "tool.config_denied",
        "change the lists of tools in the server's configuration",
    ),
    Action("release_server", LiftedBy.USER, "server.quarantined", "review the server and release it from quarantine"),
    Action("enable_tool", LiftedBy.USER, "approval.disabled", "enable the tool again"),
    Action("approve_tool", LiftedBy.USER, "approval.status", "review the tool and approve it"),
    Action("check_logs", LiftedBy.UNDETERMINED, None, "look into the logs of the server and of the proxy"),
)
"""Every action that words may name, in the order of the statuses."""
