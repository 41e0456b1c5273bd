"""Messages for agents about servers whose tools did not load (spec B), one for each status."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from callability.adapter.phrases import Phrases, fill, on_one_line, quoted
from callability.v1.callability_service_pb2 import ClassifyLoadResponse
from callability.v1.outcome_pb2 import LoadStatus as WireStatus
from callability.vocabulary import LoadStatus

UNEXPLAINED = "The tools of these servers are not there: {servers}. Tell the user so."
"""The text used if a service of another version sends no words that this version knows."""

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

    Servers whose words differ, because a rule has its own, are listed one after the other. Every server is
    named, even if the policy's author left the placeholder out.
    """
    messages: dict[LoadStatus, dict[str, list[str]]] = {status: {} for status in LoadStatus}
    for server, response in responses.items():
        status = load_status(response)
        known = response.words.message and response.words.status == response.verdict.status in _STATUSES
        words = response.words.message if known else UNEXPLAINED
        messages[status].setdefault(words, []).append(_named(server, reasons, status))
    del messages[LoadStatus.AVAILABLE]
    return {
        status: " ".join(_message(words, servers, phrases) for words, servers in groups.items())
        for status, groups in messages.items()
        if groups
    }


def _named(server: str, reasons: Mapping[str, str], status: LoadStatus) -> str:
    reason = on_one_line(reasons.get(server, "")).rstrip(".") if status is LoadStatus.PERMANENT else ""
    return f"{quoted(server)} ({reason})" if reason else quoted(server)


def _message(words: str, servers: Iterable[str], phrases: Phrases) -> str:
    template = words if "{servers}" in words else f"{{servers}}: {words}"
    return fill(template, phrases, texts={"servers": ", ".join(servers)})
