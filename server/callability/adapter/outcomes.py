"""What an agent reads about loads, one message for each status (spec B), and about an enable (spec C)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from callability.adapter.json_text import tool_result
from callability.adapter.phrases import Phrases, cut_name, fill, on_one_line, quote, shorten
from callability.contract.enum_words import ENABLE_STATUS, LOAD_STATUS
from callability.contract.vocabulary import EnableStatus, LoadStatus
from callability.v1.callability_service_pb2 import ClassifyEnableResponse, ClassifyLoadResponse

UNEXPLAINED_LOAD = "Tools are not available from {servers}. Tell the user."
"""The text used if a service of another version sends no words that this version knows."""

MAX_NAMED = 5
"""Servers of one status that are named (L-7)."""

_LOAD_STATUSES = LOAD_STATUS.members(LoadStatus)


def load_status(response: ClassifyLoadResponse) -> LoadStatus:
    """Return the status of a load; one that this version does not know needs attention."""
    return _LOAD_STATUSES.get(response.verdict.status, LoadStatus.PERMANENT)


def load_messages(
    responses: Mapping[str, ClassifyLoadResponse], reasons: Mapping[str, str], *, phrases: Phrases
) -> dict[LoadStatus, str]:
    """Return, for each status but `available` that occurs, what to say about the servers that have it (L-7).

    Args:
        responses: what the service said of the load of each server, by the server's name.
        reasons: why a server needs attention, by its name: the proxy's own words, safe to show (L-8).
        phrases: the proxy's own action phrases.

    Of each status, the first five servers by name are named, and the others are counted: an agent pays for each name. A
    long reason is cut. Servers whose words differ, because a rule has its own, are listed one after the other. Servers
    are listed even if the policy's author left the placeholder out.
    """
    messages: dict[LoadStatus, dict[str, list[str]]] = {status: {} for status in LoadStatus}
    for server, response in sorted(responses.items()):
        known = response.words.message and response.words.status == response.verdict.status in _LOAD_STATUSES
        words = response.words.message if known else UNEXPLAINED_LOAD
        messages[load_status(response)].setdefault(words, []).append(server)
    del messages[LoadStatus.AVAILABLE]
    return {
        status: _message(groups, reasons if status is LoadStatus.PERMANENT else {}, phrases)
        for status, groups in messages.items()
        if groups
    }


def _message(groups: Mapping[str, Sequence[str]], reasons: Mapping[str, str], phrases: Phrases) -> str:
    """Return what to say about the servers with one status, by the words about them."""
    named = frozenset(sorted(chain.from_iterable(groups.values()))[:MAX_NAMED])
    parts = []
    for words, servers in groups.items():
        template = words if "{servers}" in words else f"{{servers}}: {words}"
        parts.append(fill(template, phrases, texts={"servers": _list_servers(servers, named, reasons)}))
    return " ".join(parts)


def _list_servers(servers: Sequence[str], named: Collection[str], reasons: Mapping[str, str]) -> str:
    names = [_name_with_reason(server, reasons.get(server, "")) for server in servers if server in named]
    others = len(servers) - len(names)
    if not names:
        return f"{others} {'server' if others == 1 else 'servers'}"
    return ", ".join(names) + (f" and {others} more" if others else "")


def _name_with_reason(server: str, reason: str) -> str:
    reason = shorten(on_one_line(reason)).rstrip(".")
    return f"{quote(server)} ({reason})" if reason else quote(server)


UNEXPLAINED_ENABLE = "The policy service gives no reason. Tell the user. Next step: {check_logs}."
"""The text used if a service of another version sends no words that this version knows."""

_ENABLE_STATUSES = ENABLE_STATUS.members(EnableStatus)
_NO_CLAIM = "Do not claim that it is connected or call its tools."


def enable_status(response: ClassifyEnableResponse) -> EnableStatus:
    """Return the status of an enable; one that this version does not know is no connection."""
    return _ENABLE_STATUSES.get(response.verdict.status, EnableStatus.CONNECT_FAILED)


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
    known = response.words.message and response.words.status == response.verdict.status in _ENABLE_STATUSES
    texts = {
        "variables": ", ".join(map(quote, variables)) or "some of its variables",
        "locks": _locks(locks),
        "reason": _reason(reason, load),
    }
    author = fill(response.words.message if known else UNEXPLAINED_ENABLE, phrases, {"server": server}, texts)
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
