"""The closed sets that the contract fixes, by the names that rule files and MCP answers use.

Which tool names may be shown, and which may be written to a file: upstream servers choose them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

MAX_BYTES = 512
"""The longest name that the contract accepts, in bytes of UTF-8."""
_PLAIN = re.compile(r"[A-Za-z0-9_.-]{1,128}")


def is_plain(name: str) -> bool:
    """Say whether a name is 1 to 128 characters of `[A-Za-z0-9_.-]`, which mean nothing to a terminal or a shell."""
    return _PLAIN.fullmatch(name) is not None


def byte_length(name: str) -> int:
    """Return the length of a name in bytes of UTF-8; half a character counts as three."""
    return len(name.encode("utf-8", "surrogatepass"))


def unrecordable(name: str) -> str:
    """Return why no file is given a record for a name, as the end of a sentence; empty if it may have one."""
    if not 0 < (size := byte_length(name)) <= MAX_BYTES:
        return f"its name has {size:,} bytes, and only a tool with a name of 1 to {MAX_BYTES} bytes can be called"
    if not name.isprintable():
        return "its name has characters that are not printable; `enabled_tools` of its server can rule it out"
    return ""


UNKNOWN = "unknown"
"""How a fact that could not be read is written where values are written out."""
NO_LABEL = "none"
"""The value of a label that is not there."""

RESERVED_PREFIXES = frozenset(
    {"agent", "annotations", "approval", "caller", "callability", "column", "columns", "enable", "load"}
    | {"server", "tool"}
)
"""How the names of the contract's own facts begin: a rule file declares no fact that begins with one and a dot."""


def is_declared_name(fact: str) -> bool:
    """Return whether the name of a fact is one that a rule file may declare, and none of the contract's own."""
    return "." in fact and fact.partition(".")[0] not in RESERVED_PREFIXES


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


class LoadStatus(StrEnum):
    """How loading the tools of a server ended (spec B)."""

    AVAILABLE = "available"
    TRANSIENT = "transient"
    DENIED = "denied"
    PERMANENT = "permanent"

    @property
    def lifted_by(self) -> LiftedBy:
        """Who can lift it."""
        return LiftedBy.OPERATOR if self in {LoadStatus.DENIED, LoadStatus.PERMANENT} else LiftedBy.NONE

    @property
    def retry(self) -> Retry:
        """Whether trying again can help: a denial is never tried again."""
        return {LoadStatus.AVAILABLE: Retry.NOW, LoadStatus.TRANSIENT: Retry.LATER}.get(self, Retry.NEVER)


class LoadPhase(StrEnum):
    """How far a load had come; from `request` on the connection stands."""

    CONFIG = "config"
    RESOLVE = "resolve"
    CONNECT = "connect"
    TLS = "tls"
    REQUEST = "request"
    RESPONSE = "response"
    LIST = "list"


class LoadFailure(StrEnum):
    """What ended a load; none: the tools are loaded."""

    NONE = "none"
    TIMEOUT = "timeout"
    REFUSED = "refused"
    RESET = "reset"
    CLOSED = "closed"
    NAME_NOT_FOUND = "name_not_found"
    TLS = "tls"
    BAD_CONFIG = "bad_config"
    MISSING_COMMAND = "missing_command"
    EXITED = "exited"
    NOT_MCP = "not_mcp"
    HTTP_STATUS = "http_status"
    OTHER = "other"


class EnableEntry(StrEnum):
    """What becomes of the entry that an enable uses."""

    NONE = "none"
    KEPT = "kept"
    ROLLED_BACK = "rolled_back"


class EnableStatus(StrEnum):
    """How an enable ended (spec C)."""

    UNKNOWN_SERVER = "unknown_server"
    ALREADY_ENABLED = "already_enabled"
    MISSING_CREDENTIALS = "missing_credentials"
    ENABLED = "enabled"
    DECLINED = "declined"
    AUTHORIZATION_REQUIRED = "authorization_required"
    CANCELLED = "cancelled"
    CONNECT_FAILED = "connect_failed"

    @property
    def lifted_by(self) -> LiftedBy:
        """Who can lift it."""
        return _ENABLE[self].lifted_by

    @property
    def retry(self) -> Retry:
        """Whether trying again can help."""
        return _ENABLE[self].retry

    @property
    def error(self) -> bool:
        """Whether the answer is an error result."""
        return _ENABLE[self].error

    @property
    def entry(self) -> EnableEntry:
        """What becomes of the entry."""
        return _ENABLE[self].entry

    @property
    def tools_changed(self) -> int:
        """How often agents are notified that their tools have changed."""
        return int(self is EnableStatus.ENABLED)

    @property
    def connected(self) -> bool:
        """Whether the server is connected when the answer is given: with any other status nobody may say so (E-9)."""
        return self in {EnableStatus.ENABLED, EnableStatus.ALREADY_ENABLED}


class EnableCredentials(StrEnum):
    """Whether every variable that the entry of a server needs is set."""

    COMPLETE = "complete"
    MISSING = "missing"


class EnableAuthorization(StrEnum):
    """How asking the user to authorize a connection ended."""

    NOT_NEEDED = "not_needed"
    GRANTED = "granted"
    DECLINED = "declined"
    NO_DIALOG = "no_dialog"
    UNANSWERED = "unanswered"


class EnableEnd(StrEnum):
    """How an attempt to connect ended."""

    CONNECTED = "connected"
    CANCELLED = "cancelled"
    FAILED = "failed"


class _Enable(NamedTuple):
    lifted_by: LiftedBy
    retry: Retry
    error: bool
    entry: EnableEntry


_ENABLE = {
    EnableStatus.UNKNOWN_SERVER: _Enable(LiftedBy.OPERATOR, Retry.NEVER, True, EnableEntry.NONE),
    EnableStatus.ALREADY_ENABLED: _Enable(LiftedBy.NONE, Retry.NOW, False, EnableEntry.KEPT),
    EnableStatus.MISSING_CREDENTIALS: _Enable(LiftedBy.OPERATOR, Retry.NEVER, True, EnableEntry.NONE),
    EnableStatus.ENABLED: _Enable(LiftedBy.NONE, Retry.NOW, False, EnableEntry.KEPT),
    EnableStatus.DECLINED: _Enable(LiftedBy.USER, Retry.NEVER, True, EnableEntry.ROLLED_BACK),
    EnableStatus.AUTHORIZATION_REQUIRED: _Enable(LiftedBy.USER, Retry.NEVER, False, EnableEntry.KEPT),
    EnableStatus.CANCELLED: _Enable(LiftedBy.USER, Retry.NEVER, True, EnableEntry.ROLLED_BACK),
    EnableStatus.CONNECT_FAILED: _Enable(LiftedBy.UNDETERMINED, Retry.LATER, True, EnableEntry.ROLLED_BACK),
}

Status = ToolStatus | LoadStatus | EnableStatus
"""A status of any question."""


@dataclass(frozen=True, slots=True)
class Action:
    """Something that can be done about a status: its placeholder, its owner, the fact that it changes, if any, and a
    neutral verb phrase in the infinitive. `labels`: it changes labels, whichever a rule reads.
    """

    name: str
    owner: LiftedBy
    fact: str | None
    phrase: str
    labels: bool = False


CHECK_LOGS = Action("check_logs", LiftedBy.UNDETERMINED, None, "check the proxy's logs")

EDIT_LABELS = Action(
    "edit_labels",
    LiftedBy.OPERATOR,
    None,
    "edit the labels of the server, the tool or the agent in the config",
    labels=True,
)

TOOL_ACTIONS = (
    Action("enable_server", LiftedBy.USER, "server.enabled", "enable the server"),
    Action(
        "edit_config",
        LiftedBy.OPERATOR,
        "tool.config_denied",
        "edit the server's tool lists in the config",
    ),
    Action("release_server", LiftedBy.USER, "server.quarantined", "review the server, then release it from quarantine"),
    Action("enable_tool", LiftedBy.USER, "approval.disabled", "enable the tool"),
    Action("approve_tool", LiftedBy.USER, "approval.status", "review the tool and approve it"),
    CHECK_LOGS,
    EDIT_LABELS,
    Action("edit_policy", LiftedBy.OPERATOR, None, "edit the policy"),
)
"""What words about a tool may name: in the order of the statuses, then for rules that read something else."""

LOAD_ACTIONS = (
    Action("grant_access", LiftedBy.OPERATOR, None, "grant access to the server"),
    Action(
        "check_server",
        LiftedBy.OPERATOR,
        None,
        "check the server and its config entry",
    ),
)
"""What words about a load may name."""

ENABLE_ACTIONS = (CHECK_LOGS, *LOAD_ACTIONS)
"""What words about an enable may name."""

ACTIONS = (*TOOL_ACTIONS, *LOAD_ACTIONS)
"""Every action that words may name."""
