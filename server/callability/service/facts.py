"""From the facts of the contract to the facts of rules."""

from __future__ import annotations

from google.protobuf.message import DecodeError

from callability.service.errors import InvalidRequest
from callability.service.limits import check_labels
from callability.v1 import facts_pb2 as pb
from callability.vocabulary import UNKNOWN

_STATUS = {
    pb.APPROVAL_STATUS_APPROVED: "approved",
    pb.APPROVAL_STATUS_PENDING: "pending",
    pb.APPROVAL_STATUS_CHANGED: "changed",
}


def read_facts(server_facts: bytes, tool_facts: bytes) -> dict[str, str]:
    """Return every fact of a tool by name, from the wire forms of `ServerFacts` and `ToolFacts`; empty: all unknown.

    Raises:
        InvalidRequest: they are not such messages, or their labels exceed a limit.
    """
    try:
        server, tool = pb.ServerFacts.FromString(server_facts), pb.ToolFacts.FromString(tool_facts)
    except DecodeError:
        raise InvalidRequest("FACTS_MALFORMED", "the facts are not a `ServerFacts` and a `ToolFacts` message") from None
    check_labels(server.labels.values, "server")
    check_labels(tool.labels.values, "tool")
    disabled, status = _approval(tool)
    return {
        "server.enabled": _boolean(server.enabled, known=server.HasField("enabled")),
        "tool.config_denied": _boolean(tool.config_denied, known=tool.HasField("config_denied")),
        "server.quarantined": _boolean(server.quarantined, known=server.HasField("quarantined")),
        "approval.disabled": disabled,
        "approval.status": status,
        "caller.refuses": _boolean(tool.caller_refuses, known=True),
    }


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
