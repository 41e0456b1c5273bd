"""The counts of a server's tools in a list of servers (spec A.6)."""

from __future__ import annotations

from callability.adapter.judgement import status_of
from callability.v1.callability_service_pb2 import ServerResults
from callability.vocabulary import ToolStatus

_ORDER = (
    ToolStatus.DISABLED_BY_CONFIG,
    ToolStatus.DISABLED_BY_USER,
    ToolStatus.PENDING_APPROVAL,
    ToolStatus.SERVER_DISABLED,
    ToolStatus.SERVER_QUARANTINED,
    ToolStatus.DISABLED_UNKNOWN,
)


def tool_counts(results: ServerResults) -> dict[str, int] | None:
    """Return how many tools of a server are callable, and how many are not and why; None where all are (SC-005)."""
    found = dict.fromkeys(ToolStatus, 0)
    for count in results.counts:
        found[status_of(count.status)] += count.count
    locked = {str(status): found[status] for status in _ORDER if found[status]}
    return {"callable": found[ToolStatus.CALLABLE], **locked} if locked else None
