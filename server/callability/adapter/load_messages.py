"""Messages for agents about servers whose tools did not load (spec B), one for each status."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import chain

from callability.adapter.phrases import Phrases, fill
from callability.adapter.shown_text import on_one_line, quoted, shortened
from callability.v1.callability_service_pb2 import ClassifyLoadResponse
from callability.v1.outcome_pb2 import LoadStatus as WireStatus
from callability.vocabulary import LoadStatus

UNEXPLAINED = "Tools are not available from {servers}. Tell the user."
"""The text used if a service of another version sends no words that this version knows."""

MAX_NAMED = 5
"""Servers of one status that are named (L-7)."""

_STATUSES: Mapping[int, LoadStatus] = {
    number: LoadStatus(name.removeprefix("LOAD_STATUS_").lower()) for name, number in WireStatus.items() if number
}


def load_status(response: ClassifyLoadResponse) -> LoadStatus:
    """Return the status of a load; one that this version does not know needs attention."""
    return _STATUSES.get(response.verdict.status, LoadStatus.PERMANENT)


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
        known = response.words.message and response.words.status == response.verdict.status in _STATUSES
        words = response.words.message if known else UNEXPLAINED
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
        parts.append(fill(template, phrases, texts={"servers": _listed(servers, named, reasons)}))
    return " ".join(parts)


def _listed(servers: Sequence[str], named: Collection[str], reasons: Mapping[str, str]) -> str:
    names = [_named(server, reasons.get(server, "")) for server in servers if server in named]
    others = len(servers) - len(names)
    if not names:
        return f"{others} {'server' if others == 1 else 'servers'}"
    return ", ".join(names) + (f" and {others} more" if others else "")


def _named(server: str, reason: str) -> str:
    reason = shortened(on_one_line(reason)).rstrip(".")
    return f"{quoted(server)} ({reason})" if reason else quoted(server)
