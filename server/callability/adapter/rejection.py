"""What an agent reads when it calls a tool that it cannot call (spec A.5)."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from callability.adapter.judgement import status_of
from callability.adapter.phrases import Phrases, fill, quoted
from callability.adapter.result import tool_result
from callability.v1.callability_service_pb2 import CheckToolResponse
from callability.vocabulary import LiftedBy, Retry, ToolStatus

_MAX_NEAR = 3
_WHO: Mapping[LiftedBy, str] = {
    LiftedBy.USER: "The user can lift this.",
    LiftedBy.OPERATOR: "Only the operator can lift this, and the user cannot.",
    LiftedBy.UNDETERMINED: "Who can lift this is not known.",
    LiftedBy.NONE: "Nobody needs to lift this.",
}
_AGAIN: Mapping[Retry, str] = {
    Retry.NEVER: "Calling again gives the same answer until then.",
    Retry.LATER: "Calling again later may succeed.",
    Retry.NOW: "Call it again.",
}
_POINTER = (
    "`retrieve_tools` with `include_disabled: true` shows which tools exist but cannot be called, and what can be done."
)


def rejection(response: CheckToolResponse, server: str, tool: str, *, phrases: Phrases) -> dict[str, Any]:
    """Return the MCP tool result for a call of a tool that the service says is not callable (FR-008).

    Whatever the policy's author wrote, it gives in this order the status, whether it is deliberate, the author's text,
    who can lift it and whether trying again can help, and where to see more. Server and tool are those that the agent
    named.
    """
    status = status_of(response.verdict.status)
    status = ToolStatus.DISABLED_UNKNOWN if status is ToolStatus.CALLABLE else status
    author = fill(response.words.rejection, phrases, {"server": server, "tool": tool})
    parts = (
        f"Not called: {status}.",
        _deliberate(status),
        author,
        f"{_WHO[status.lifted_by]} {_AGAIN[status.retry]}",
        _POINTER,
    )
    told = {
        "status": str(status),
        "server": server,
        "tool": tool,
        "lifted_by": str(status.lifted_by),
        "retry": str(status.retry),
    }
    return tool_result(told, text=" ".join(filter(None, parts)), is_error=True)


def unknown_tool(name: str, names: Iterable[str]) -> dict[str, Any]:
    """Return the MCP tool result for a call of a tool that does not exist for the caller, with near callable names.

    A tool outside the caller's scope is answered by it too, so that the two cannot be told apart (FR-007).
    """
    near = difflib.get_close_matches(name[:256], sorted(names), n=_MAX_NEAR, cutoff=0.6)
    hint = f" Near to it: {', '.join(quoted(each) for each in near)}." if near else ""
    text = f"Not called: there is no tool {quoted(name)}.{hint} `retrieve_tools` finds the tools that there are."
    return tool_result(None, text=text, is_error=True)


def _deliberate(status: ToolStatus) -> str:
    if status is ToolStatus.DISABLED_UNKNOWN:
        return "The reason could not be determined, and the call was held back rather than guessed."
    return "This is deliberate and not a fault."
