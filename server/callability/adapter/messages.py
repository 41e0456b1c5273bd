"""What an agent reads about a call that the policy rejects (spec A.5), loads (spec B) and an enable (spec C).

For an undetermined verdict it names the kinds of facts that could not be read. It never names the fact: the key of a
label is the operator's. A fact that the policy declares has no kind, so its name is given. About loads there is one
message for each status.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Any

from callability.adapter.judgement import UNEXPLAINED, known_status, status_of
from callability.adapter.texts import (
    MAX_NAME,
    Phrases,
    cut_name,
    error_result,
    fill,
    on_one_line,
    quote,
    shorten,
    tool_result,
    well_formed,
    with_declared,
)
from callability.contract.enum_words import ENABLE_STATUS, LOAD_STATUS
from callability.contract.vocabulary import EnableStatus, LiftedBy, LoadStatus, Retry, ToolStatus, is_declared_name
from callability.v1 import callability_service_pb2 as pb
from callability.v1 import verdict_pb2

UNEXPLAINED_LOAD = "Tools are not available from {servers}. Tell the user."
"""The text used if a service of another version sends no words that this version knows."""

MAX_NAMED = 5
"""Servers of one status that are named (L-7)."""

_LOAD_STATUSES = LOAD_STATUS.members(LoadStatus)


def load_status(response: pb.ClassifyLoadResponse) -> LoadStatus:
    """Return the status of a load; one that this version does not know needs attention."""
    return _LOAD_STATUSES.get(response.verdict.status, LoadStatus.PERMANENT)


def load_messages(
    responses: Mapping[str, pb.ClassifyLoadResponse], reasons: Mapping[str, str], *, phrases: Phrases
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


def enable_status(response: pb.ClassifyEnableResponse) -> EnableStatus:
    """Return the status of an enable; one that this version does not know is no connection."""
    return _ENABLE_STATUSES.get(response.verdict.status, EnableStatus.CONNECT_FAILED)


def enable_result(
    response: pb.ClassifyEnableResponse,
    server: str,
    *,
    phrases: Phrases,
    variables: Iterable[str] = (),
    locks: Mapping[str, str] | None = None,
    load: pb.ClassifyLoadResponse | None = None,
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


def _reason(reason: str, load: pb.ClassifyLoadResponse | None) -> str:
    cause = on_one_line(reason).rstrip(".") or "the reason is not known"
    return f"{cause} ({load_status(load)})" if load else cause


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


def retry_of(verdict: verdict_pb2.ToolVerdict, status: ToolStatus, *, facts_from_config: bool = False) -> Retry:
    """Return whether trying again can help: what the status says, unless a fact that is unread stays unknown.

    With `facts_from_config`, declared facts stay unknown until a person edits the config of the proxy.
    """
    if status is not ToolStatus.DISABLED_UNKNOWN:
        return status.retry
    stays = facts_from_config and any(map(_is_declared, verdict.unread))
    return Retry.NEVER if stays or verdict.retry == verdict_pb2.RETRY_NEVER else status.retry


def _is_declared(fact: str) -> bool:
    return is_declared_name(fact) and len(fact) <= MAX_NAME and _DECLARED.fullmatch(fact) is not None


def _kind(fact: str) -> str:
    if _is_declared(fact):
        return f"the fact `{fact}`"
    family = next((kind for beginning, kind in _FAMILIES.items() if fact.startswith(beginning)), _OTHER)
    return _KINDS.get(fact, family)


_MAX_NEAR = 3
_NEAR = 60
"""Percent: twice the length of the longest common subsequence, by the length of both names."""
_MOST_COMPARED = 256
_WHO: Mapping[LiftedBy, str] = {
    LiftedBy.USER: "The user can lift this.",
    LiftedBy.OPERATOR: "Only the operator can lift this.",
    LiftedBy.UNDETERMINED: "Who can lift this is unknown.",
    LiftedBy.NONE: "Nobody needs to lift this.",
}
_OWNERS: Mapping[int, str] = {verdict_pb2.LIFTED_BY_USER: "the user", verdict_pb2.LIFTED_BY_OPERATOR: "the operator"}
_MOST_REMAINING = 5
"""Steps that are said; more are counted."""
_AGAIN: Mapping[Retry, str] = {
    Retry.NEVER: "Do not retry until then.",
    Retry.LATER: "A later retry may succeed.",
    Retry.NOW: "Call it again.",
}
_AGAIN_UNDETERMINED: Mapping[Retry, str] = {**_AGAIN, Retry.NEVER: "Retrying does not help."}
_UNDETERMINED = "The reason could not be determined; held back rather than guessed."


@dataclass(frozen=True, slots=True)
class UnknownTool:
    """The answer about a tool that the caller's inventory does not have: it can only be rejected.

    It has no verdict. `name` is the name by which an agent knows the tool.
    """

    name: str


def rejection(
    response: pb.CheckToolResponse | UnknownTool,
    server: str,
    tool: str,
    *,
    phrases: Phrases,
    discovery_tool: str = "retrieve_tools",
    refusal: str = "",
    facts_from_config: bool = False,
    names: Iterable[str] = (),
) -> dict[str, Any] | None:
    """Return the MCP tool result for a call that the service does not let through (FR-008), or None: call the tool.

    Whatever the policy's author wrote, it gives in this order the status, whether it is by policy, the author's text,
    the locks that remain once this one is lifted, who can lift them all and whether a retry can help, and where to see
    more. Server and tool are those that the agent
    named; `discovery_tool` is the name of the proxy's own.

    The text for an undetermined verdict says which kinds of facts could not be read. `refusal` is why the proxy's own
    gate refuses the tool for good, if it sent `caller_refuses` for it: whole sentences of the proxy's own. They stand
    in place of the author's text if the verdict is a `disabled_unknown` that is determined. `facts_from_config`: the
    proxy takes declared facts from its config, so that one that is unread is not known by itself later.

    An `UnknownTool` is always rejected, as `unknown_tool` does it; `names` are the callable tools, for near names.
    """
    if isinstance(response, UnknownTool):
        return unknown_tool(response.name, names, discovery_tool=discovery_tool)
    number = response.verdict.status
    if number == verdict_pb2.TOOL_STATUS_CALLABLE:
        return None
    status = status_of(number)
    # The words of another status, or of one that this version does not know, would name the wrong switch.
    known = response.words.rejection and known_status(number) and response.words.status == number
    author = response.words.rejection if known else UNEXPLAINED
    with_phrases = with_declared(phrases, response.words.phrases) if known else phrases
    names_here = {"server": server, "tool": tool}
    reason = [fill(author, with_phrases, names_here)]
    retry = retry_of(response.verdict, status, facts_from_config=facts_from_config)
    decided = f"{status}, by policy"
    if status is ToolStatus.DISABLED_UNKNOWN:
        decided = str(status)
        reason = [_UNDETERMINED, unread_sentence(response.verdict.unread), *reason]
        own = on_one_line(refusal)
        if own and known_status(number) and not response.verdict.undetermined:
            reason, retry = [own], Retry.NEVER
    again = _AGAIN_UNDETERMINED if status.lifted_by is LiftedBy.UNDETERMINED else _AGAIN
    remaining = response.remaining
    parts = (
        f"Not called: {decided}.",
        *filter(None, reason),
        *_then(remaining, phrases, names_here),
        *filter(None, (_who(status.lifted_by, remaining), again[retry])),
        f"See `{discovery_tool}` with `include_disabled: true`.",
    )
    content = {
        "status": str(status),
        "server": cut_name(server),
        "tool": cut_name(tool),
        "lifted_by": str(status.lifted_by),
        "retry": str(retry),
    }
    return tool_result(content, text=" ".join(parts), is_error=True)


def _then(remaining: pb.PathToCallable, phrases: Phrases, names: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence about each lock that remains once that of the verdict is lifted, in the order of the path."""
    for step in remaining.steps[:_MOST_REMAINING]:
        for owner, changes in groupby(step.changes, key=lambda change: change.changed_by):
            if owner not in _OWNERS:
                yield "Then the proxy itself still refuses it."
                continue
            actions = {change.action: change.phrase for change in changes}
            with_phrases = with_declared(phrases, actions)
            what = [fill(f"{{{each}}}", with_phrases, names) for each in actions]
            yield f"Then {_OWNERS[owner]} must {' and '.join(what)}."
    more = len(remaining.steps) - _MOST_REMAINING
    if more > 0:
        yield f"Then {more} more {'lock remains' if more == 1 else 'locks remain'}."
    match remaining.end:
        case pb.PATH_END_UNSPECIFIED | pb.PATH_END_CALLABLE:
            return
        case pb.PATH_END_POLICY_CHANGE:
            yield "Then only a change of the policy lifts it."
        case pb.PATH_END_FIND_OUT:
            yield f"Then it depends on {unread_kinds(remaining.find_out)}, which could not be read."
        case _:
            yield "Then another lock may remain."


def _who(first: LiftedBy, remaining: pb.PathToCallable) -> str:
    """Return who can lift all locks, if the contract says so of each."""
    if first not in {LiftedBy.USER, LiftedBy.OPERATOR}:
        return _WHO[first]
    owners = {f"the {first}"}
    for step in remaining.steps:
        owners.update(_OWNERS.get(change.changed_by, "") for change in step.changes)
    if remaining.end not in {pb.PATH_END_UNSPECIFIED, pb.PATH_END_CALLABLE} or "" in owners:
        return ""
    return _WHO[first] if len(owners) == 1 else "Both the user and the operator must act."


def unknown_tool(name: str, names: Iterable[str], *, discovery_tool: str = "retrieve_tools") -> dict[str, Any]:
    """Return the MCP tool result for a call of a tool that does not exist for the caller, with near callable names.

    A tool outside the caller's scope gets the same answer, so that the two cannot be distinguished (FR-007).
    """
    near = near_names(name, names)
    hint = f" Similar names: {', '.join(map(quote, near))}." if near else ""
    text = f"Not called: there is no tool {quote(name)}.{hint} Find tools with `{discovery_tool}`."
    return tool_result(None, text=text, is_error=True)


def near_names(name: str, names: Iterable[str], least: int = _NEAR) -> list[str]:
    """Return the names that are most like one that does not exist; `least` is in percent."""
    # Most agents send names that exist.
    from rapidfuzz import fuzz, process  # noqa: PLC0415

    compared = well_formed(name)[:_MOST_COMPARED]
    near = process.extract(compared, sorted(set(names)), scorer=fuzz.ratio, score_cutoff=least, limit=_MAX_NEAR)
    return [found for found, _, _ in near]


def ambiguous_tool(name: str) -> dict[str, Any]:
    """Return the MCP tool result for a call by a qualified name that two tools have."""
    return error_result(
        f"Not called: two tools have the same qualified name {quote(name)}, so a call could mean either. Retrying does"
        " not help. Tell the user that the operator of this proxy must rename one of them or of their servers."
    )


def unavailable(reason: str) -> dict[str, Any]:
    """Return the MCP tool result for a call while the policy service gives no answer (spec A.7): it is no status."""
    why = on_one_line(reason).rstrip(".") or "the policy service gave no answer"
    return error_result(
        f"Not done: {why}. Nothing was shown or called; this says nothing about any tool. A later retry may succeed."
        " If it does not, tell the user that the operator of this proxy must look into it."
    )
