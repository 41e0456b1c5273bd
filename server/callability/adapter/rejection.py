"""The result of a call that the policy rejects, as an agent reads it (spec A.5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rapidfuzz import fuzz, process

from callability.adapter.json_text import well_formed
from callability.adapter.judgement import UNEXPLAINED, known_status, status_of
from callability.adapter.phrases import Phrases, fill, with_declared
from callability.adapter.result import error_result, tool_result
from callability.adapter.shown_text import cut_name, on_one_line, quoted
from callability.adapter.unread import retry_of, unread_sentence
from callability.v1.callability_service_pb2 import CheckToolResponse
from callability.v1.verdict_pb2 import TOOL_STATUS_CALLABLE
from callability.vocabulary import LiftedBy, Retry, ToolStatus

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
    response: CheckToolResponse | UnknownTool,
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
    who can lift it and whether a retry can help, and where to see more. Server and tool are those that the agent
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
    if number == TOOL_STATUS_CALLABLE:
        return None
    status = status_of(number)
    # The words of another status, or of one that this version does not know, would name the wrong switch.
    known = response.words.rejection and known_status(number) and response.words.status == number
    author = response.words.rejection if known else UNEXPLAINED
    with_phrases = with_declared(phrases, response.words.phrases) if known else phrases
    reason = [fill(author, with_phrases, {"server": server, "tool": tool})]
    retry = retry_of(response.verdict, status, facts_from_config=facts_from_config)
    decided = f"{status}, by policy"
    if status is ToolStatus.DISABLED_UNKNOWN:
        decided = str(status)
        reason = [_UNDETERMINED, unread_sentence(response.verdict.unread), *reason]
        own = on_one_line(refusal)
        if own and known_status(number) and not response.verdict.undetermined:
            reason, retry = [own], Retry.NEVER
    again = _AGAIN_UNDETERMINED if status.lifted_by is LiftedBy.UNDETERMINED else _AGAIN
    parts = (
        f"Not called: {decided}.",
        *filter(None, reason),
        f"{_WHO[status.lifted_by]} {again[retry]}",
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


def unknown_tool(name: str, names: Iterable[str], *, discovery_tool: str = "retrieve_tools") -> dict[str, Any]:
    """Return the MCP tool result for a call of a tool that does not exist for the caller, with near callable names.

    A tool outside the caller's scope gets the same answer, so that the two cannot be distinguished (FR-007).
    """
    compared = well_formed(name)[:_MOST_COMPARED]
    near = process.extract(compared, sorted(set(names)), scorer=fuzz.ratio, score_cutoff=_NEAR, limit=_MAX_NEAR)
    hint = f" Similar names: {', '.join(quoted(each) for each, _, _ in near)}." if near else ""
    text = f"Not called: there is no tool {quoted(name)}.{hint} Find tools with `{discovery_tool}`."
    return tool_result(None, text=text, is_error=True)


def unavailable(reason: str) -> dict[str, Any]:
    """Return the MCP tool result for a call while the policy service gives no answer (spec A.7): it is no status."""
    why = on_one_line(reason).rstrip(".") or "the policy service gave no answer"
    return error_result(
        f"Not done: {why}. Nothing was shown or called; this says nothing about any tool. A later retry may succeed."
        " If it does not, tell the user that the policy service is down."
    )
