"""The facts that an undetermined verdict could not read, in plain words, and whether a later call may succeed.

A word names a kind of fact and never the fact: the key of a label is the operator's, and an agent learns nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from callability.v1.verdict_pb2 import RETRY_NEVER, ToolVerdict
from callability.vocabulary import Retry, ToolStatus

_LABEL = "a label set by the operator"
_KINDS: Mapping[str, str] = {
    "server.enabled": "the server's state",
    "server.quarantined": "the server's state",
    "tool.config_denied": "the operator's config",
    "agent.name": "the agent's name",
}
"""By fact."""
_FAMILIES: Mapping[str, str] = {
    "approval.": "the tool's approval",
    "annotations.": "the tool's annotations",
    "server.label.": _LABEL,
    "tool.label.": _LABEL,
    "agent.label.": _LABEL,
}
"""By the beginning of a fact."""
_OTHER = "another fact that the policy reads"


def unread_sentence(facts: Iterable[str]) -> str:
    """Return a sentence about what could not be read; nothing if there are no facts."""
    kinds = tuple(dict.fromkeys(map(_kind, facts)))
    return f"Could not be read: {', '.join(kinds)}." if kinds else ""


def retry_of(verdict: ToolVerdict, status: ToolStatus) -> Retry:
    """Return whether trying again can help: what the status says, unless a fact that is unread stays unknown."""
    if status is ToolStatus.DISABLED_UNKNOWN and verdict.retry == RETRY_NEVER:
        return Retry.NEVER
    return status.retry


def _kind(fact: str) -> str:
    family = next((kind for beginning, kind in _FAMILIES.items() if fact.startswith(beginning)), _OTHER)
    return _KINDS.get(fact, family)
