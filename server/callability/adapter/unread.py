"""The facts that an undetermined verdict could not read, in plain words, and whether a later call may succeed.

A word names a kind of fact and not the fact: the key of a label is the operator's, and an agent learns nothing of it. A
fact that the policy declares has no kind, so its name is given.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from callability.adapter.shown_text import MAX_NAME
from callability.v1.verdict_pb2 import RETRY_NEVER, ToolVerdict
from callability.vocabulary import Retry, ToolStatus, is_declared_name

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
_DECLARED = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+")
"""What the name of a fact may be that a rule file declares."""
_OTHER = "another fact that the policy reads"


def unread_sentence(facts: Iterable[str]) -> str:
    """Return a sentence about what could not be read; nothing if there are no facts."""
    kinds = unread_kinds(facts)
    return f"Could not be read: {kinds}." if kinds else ""


def unread_kinds(facts: Iterable[str]) -> str:
    """Return the kinds of some facts, each once."""
    return ", ".join(dict.fromkeys(map(_kind, facts)))


def retry_of(verdict: ToolVerdict, status: ToolStatus, *, facts_from_config: bool = False) -> Retry:
    """Return whether trying again can help: what the status says, unless a fact that is unread stays unknown.

    With `facts_from_config`, declared facts stay unknown until a person edits the config of the proxy.
    """
    if status is not ToolStatus.DISABLED_UNKNOWN:
        return status.retry
    stays = facts_from_config and any(map(_is_declared, verdict.unread))
    return Retry.NEVER if stays or verdict.retry == RETRY_NEVER else status.retry


def _is_declared(fact: str) -> bool:
    return is_declared_name(fact) and len(fact) <= MAX_NAME and _DECLARED.fullmatch(fact) is not None


def _kind(fact: str) -> str:
    if _is_declared(fact):
        return f"the fact `{fact}`"
    family = next((kind for beginning, kind in _FAMILIES.items() if fact.startswith(beginning)), _OTHER)
    return _KINDS.get(fact, family)
