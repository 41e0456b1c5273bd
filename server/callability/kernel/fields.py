"""The facts of a server and a tool that are fields of the contract, by name."""

from __future__ import annotations

from typing import Literal

from callability.kernel.states import normalized_hints
from callability.v1 import facts_pb2 as pb
from callability.vocabulary import UNKNOWN

Hint = Literal["read_only", "destructive", "idempotent", "open_world"]
_DEPENDENT: tuple[Hint, ...] = ("read_only", "destructive", "idempotent")
_STATUS = {
    pb.APPROVAL_STATUS_APPROVED: "approved",
    pb.APPROVAL_STATUS_PENDING: "pending",
    pb.APPROVAL_STATUS_CHANGED: "changed",
}


def server_fields(facts: pb.ServerFacts) -> dict[str, str]:
    """Return the fields of the facts of a server."""
    return {
        "server.enabled": _boolean(facts.enabled, known=facts.HasField("enabled")),
        "server.quarantined": _boolean(facts.quarantined, known=facts.HasField("quarantined")),
    }


def tool_fields(facts: pb.ToolFacts) -> dict[str, str]:
    """Return the fields of the facts of a tool, without its annotations."""
    disabled, status = _approval(facts)
    return {
        "tool.config_denied": _boolean(facts.config_denied, known=facts.HasField("config_denied")),
        "approval.disabled": disabled,
        "approval.status": status,
        "caller.refuses": _boolean(facts.caller_refuses, known=True),
    }


def hints(facts: pb.ToolFacts) -> dict[str, str]:
    """Return the annotations of a tool. One that is left out has MCP's default; left out together, all are unknown."""
    if not facts.HasField("annotations"):
        return {f"annotations.{hint}": UNKNOWN for hint in (*_DEPENDENT, "open_world")}
    said = facts.annotations
    given = {
        f"annotations.{hint}": _boolean(getattr(said, hint), known=True) for hint in _DEPENDENT if said.HasField(hint)
    }
    open_world = not said.HasField("open_world") or said.open_world
    return normalized_hints(given) | {"annotations.open_world": _boolean(open_world, known=True)}


def outside_domain(facts: pb.ToolFacts) -> frozenset[str]:
    """Return the facts of the approval record that were read with a value outside their domain, and so are unknown."""
    record = facts.approval.record
    found = set()
    if record.disabled_unspecified and not record.HasField("disabled"):
        found.add("approval.disabled")
    if record.HasField("status") and record.status not in _STATUS:
        found.add("approval.status")
    return frozenset(found)


def _boolean(value: bool, *, known: bool) -> str:
    return str(value).lower() if known else UNKNOWN


def _approval(tool: pb.ToolFacts) -> tuple[str, str]:
    """An approval that is absent is unknown; one without a record says that there is none (spec A.2)."""
    if not tool.HasField("approval"):
        return UNKNOWN, UNKNOWN
    if not tool.approval.HasField("record"):
        return "false", "none"
    record = tool.approval.record
    return _boolean(record.disabled, known=record.HasField("disabled")), _STATUS.get(record.status, UNKNOWN)
