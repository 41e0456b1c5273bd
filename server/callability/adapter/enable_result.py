"""The result of `enable_server` that an agent reads (spec C)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from callability.adapter.load_messages import load_status
from callability.adapter.phrases import Phrases, fill
from callability.adapter.result import tool_result
from callability.adapter.shown_text import cut_name, on_one_line, quoted
from callability.v1.callability_service_pb2 import ClassifyEnableResponse, ClassifyLoadResponse
from callability.v1.outcome_pb2 import EnableStatus as WireStatus
from callability.vocabulary import EnableStatus

UNEXPLAINED = "The policy service gives no reason. Tell the user. Next step: {check_logs}."
"""The text used if a service of another version sends no words that this version knows."""

_STATUSES: Mapping[int, EnableStatus] = {
    number: EnableStatus(name.removeprefix("ENABLE_STATUS_").lower()) for name, number in WireStatus.items() if number
}
_NO_CLAIM = "Do not claim that it is connected or call its tools."


def enable_status(response: ClassifyEnableResponse) -> EnableStatus:
    """Return the status of an enable; one that this version does not know is no connection."""
    return _STATUSES.get(response.verdict.status, EnableStatus.CONNECT_FAILED)


def enable_result(
    response: ClassifyEnableResponse,
    server: str,
    *,
    phrases: Phrases,
    variables: Iterable[str] = (),
    locks: Mapping[str, str] | None = None,
    load: ClassifyLoadResponse | None = None,
    reason: str = "",
) -> dict[str, Any]:
    """Return the MCP tool result of an enable.

    Args:
        response: what the service said of it.
        server: the server that the agent named.
        phrases: the proxy's own action phrases.
        variables: the names of what is not set.
        locks: why no tool of the server can be called, as `Judgement.remediation` returns it; empty if it has no
            tool, and None if that is not known.
        load: what the service said of the load that failed.
        reason: why the connection failed, in the proxy's own words, safe to show (L-8).

    Whatever the policy's author wrote, it says first whether the server is connected, and, where it is not, last that
    nobody may say so (E-9).
    """
    status = enable_status(response)
    known = response.words.message and response.words.status == response.verdict.status in _STATUSES
    texts = {
        "variables": ", ".join(map(quoted, variables)) or "some of its variables",
        "locks": _locks(locks),
        "reason": _reason(reason, load),
    }
    author = fill(response.words.message if known else UNEXPLAINED, phrases, {"server": server}, texts)
    parts = (f"Connected: {status}.", author) if status.connected else (f"Not connected: {status}.", author, _NO_CLAIM)
    content = {"status": str(status), "server": cut_name(server), "tools_changed": status.tools_changed}
    return tool_result(content, text=" ".join(parts), is_error=status.error)


def _locks(locks: Mapping[str, str] | None) -> str:
    if locks is None:
        return "It is not known which lock remains."
    return " ".join(f"{lock}: {on_one_line(text)}" for lock, text in locks.items()) or "It lists no tools."


def _reason(reason: str, load: ClassifyLoadResponse | None) -> str:
    cause = on_one_line(reason).rstrip(".") or "the reason is not known"
    return f"{cause} ({load_status(load)})" if load else cause
