"""The counts of a server's tools in a list of servers (spec A.6)."""

from __future__ import annotations

from collections import Counter

from callability.adapter.judgement import Judgement
from callability.vocabulary import ToolStatus

_ORDER = (
    ToolStatus.DISABLED_BY_CONFIG,
    ToolStatus.DISABLED_BY_USER,
    ToolStatus.PENDING_APPROVAL,
    ToolStatus.SERVER_DISABLED,
    ToolStatus.SERVER_QUARANTINED,
    ToolStatus.DISABLED_UNKNOWN,
)


def tool_counts(judgement: Judgement) -> dict[str, dict[str, int]]:
    """Return, for each server with a tool that is not callable, how many are callable, and how many are not and why.

    A server whose tools are all callable is not in it, so that its entry gains nothing (SC-005).
    """
    found: dict[str, Counter[ToolStatus]] = {}
    for tool in judgement.tools:
        found.setdefault(tool.server, Counter())[tool.status] += 1
    return {
        server: {
            "callable": counts[ToolStatus.CALLABLE],
            **{str(each): counts[each] for each in _ORDER if counts[each]},
        }
        for server, counts in found.items()
        if counts[ToolStatus.CALLABLE] < counts.total()
    }
