"""Whether the tools that a job needs can be called now: the answer in the form of mcpproxy's `required-tools`.

The payload is that of the draft extension `app.mcpproxy/required-tools`, version 1. Nothing is called, and no server is
opened: the answer is made of what the gateway knows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from callability.adapter.judgement import status_of
from callability.adapter.messages import near_names, unread_sentence
from callability.adapter.texts import fill, with_declared
from callability.contract.finding import as_code
from callability.contract.vocabulary import MAX_BYTES, LoadStatus, ToolStatus, byte_length
from callability.process import logs
from callability.v1.callability_service_pb2 import CheckToolResponse

if TYPE_CHECKING:
    from callability.gateway.inventory import KnownServer
    from callability.gateway.tools.decisions import AgentView
    from callability.gateway.upstream.upstream import Upstream

EXTENSION = "app.mcpproxy/required-tools"
MOST_TOOLS = 50
SETTINGS = {"version": 1, "max_tools": MOST_TOOLS}
"""What a server that supports the extension advertises."""

READY, RETRYABLE, BLOCKED, UNKNOWN_IDS = "ready", "degraded_retryable", "blocked", "unknown_ids"
VERDICTS = (READY, RETRYABLE, BLOCKED, UNKNOWN_IDS)
"""The verdicts about a set of tools, from the best to the worst."""

_RETRYABLE = frozenset({"server_initializing", "server_unhealthy"})
_FILTERS = {"read_only_only": "read_only", "exclude_destructive": "destructive", "exclude_open_world": "open_world"}
"""The annotation that each filter reads, in the order in which they are looked at."""
_REASONS = {
    ToolStatus.SERVER_DISABLED: ("server_disabled", "enable"),
    ToolStatus.DISABLED_BY_CONFIG: ("tool_denied_by_config", "configure"),
    ToolStatus.SERVER_QUARANTINED: ("server_quarantined", "approve"),
    ToolStatus.DISABLED_BY_USER: ("tool_blocked_by_user", "enable"),
    ToolStatus.PENDING_APPROVAL: ("tool_pending_approval", "approve"),
}
_NOT_FOUND = "No tool with this id is available."
_LOOK = "Check the id, SERVER:TOOL. Find tools with `retrieve_tools`."


class MalformedRider(Exception):
    """What a client sends about the tools that it needs is not as the extension says; the text names the fault."""


@dataclass(frozen=True, slots=True)
class RequiredTools:
    """The ids of the tools that a job needs, each once, and the filters that they must pass."""

    ids: tuple[str, ...]
    filters: frozenset[str] = frozenset()

    @classmethod
    def of_ids(cls, ids: Sequence[str]) -> RequiredTools:
        """Return the tools of a list of ids.

        Raises:
            MalformedRider: there is none, or there are too many, or an id is empty.
        """
        if not 1 <= len(ids) <= MOST_TOOLS:
            raise MalformedRider(f"`tools` must have 1 to {MOST_TOOLS} entries, and has {len(ids)}")
        if not all(each.strip() for each in ids):
            raise MalformedRider("an `id` is empty")
        return cls(tuple(dict.fromkeys(each.strip() for each in ids)))

    @classmethod
    def of(cls, rider: object) -> RequiredTools:
        """Return what the `_meta` of a request has under the name of the extension.

        Raises:
            MalformedRider: it is not as the extension says.
        """
        if not isinstance(rider, dict) or not rider.keys() <= {"tools", "policy"} or "tools" not in rider:
            raise MalformedRider("it must be an object with `tools`, and may have `policy`, and nothing else")
        tools, policy = rider["tools"], rider.get("policy", {})
        if not isinstance(tools, list) or not all(
            isinstance(each, dict) and each.keys() == {"id"} and isinstance(each["id"], str) for each in tools
        ):
            raise MalformedRider("`tools` must be a list of objects that have an `id`, a text, and nothing else")
        if not isinstance(policy, dict) or not all(
            name in _FILTERS and isinstance(value, bool) for name, value in policy.items()
        ):
            raise MalformedRider(f"`policy` may have {', '.join(f'`{name}`' for name in _FILTERS)}, each true or false")
        named = cls.of_ids([each["id"] for each in tools])
        return cls(named.ids, frozenset(name for name, wanted in policy.items() if wanted))


class Preflight:
    """Answers for one agent: a tool out of its scope gets the answer of one that does not exist (FR-007)."""

    def __init__(self, view: AgentView) -> None:
        self._view = view

    async def check(self, required: RequiredTools) -> dict[str, Any]:
        """Return the verdict about the tools, and what is to be said about each.

        Raises:
            PolicyUnavailable: the policy gave no answer.
        """
        with logs.report():
            results = await asyncio.gather(*(self._check_tool(each, required.filters) for each in required.ids))
        return {
            "verdict": VERDICTS[max(map(_class_of, results))],
            "checked_at": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "tools": results,
        }

    async def _check_tool(self, name: str, filters: frozenset[str]) -> dict[str, Any]:
        server, colon, tool = name.partition(":")
        if colon and tool and server in self._view.inventory.servers:
            return await self._of_server(name, server, tool, filters) or await self._not_found(name)
        if colon and tool and server in self._view.phrases.catalog:
            do = f"Call `enable_server` with the id {as_code(server)}."
            return _unavailable(name, "server_disabled", "The server is in the catalog, and not enabled.", do, "enable")
        return await self._not_found(name)

    async def _of_server(self, name: str, server: str, tool: str, filters: frozenset[str]) -> dict[str, Any] | None:
        """Return the result for a tool of a server; None if there is no such tool."""
        upstream, known = self._view.inventory.upstream(server), self._view.inventory.known(server)
        if upstream is not None and tool not in known.by_name:
            return None if known.connected else self._not_connected(name, server, upstream)
        if byte_length(tool) > MAX_BYTES:
            return None
        response = await self._view.decisions.check(known, tool)
        status = status_of(response.verdict.status)
        if status is not ToolStatus.CALLABLE:
            waits = any(fact.startswith("annotations.") for fact in response.verdict.unread)
            if waits and upstream is not None and not known.connected:
                return self._not_connected(name, server, upstream)
            return self._describe_lock(name, known, tool, response)
        if upstream is not None and not known.connected:
            return self._not_connected(name, server, upstream)
        return _apply_filters(name, known, tool, filters) or {"id": name, "status": "ready"}

    def _describe_lock(self, name: str, known: KnownServer, tool: str, response: CheckToolResponse) -> dict[str, Any]:
        server, status = known.facts.name, status_of(response.verdict.status)
        phrases = with_declared(self._view.phrases.about(server, tool), response.words.phrases)
        do = fill(response.words.rejection, phrases, {"server": server, "tool": tool})
        if status is ToolStatus.DISABLED_UNKNOWN:
            refusal = known.facts.refusals.get(tool, "")
            unread = unread_sentence(response.verdict.unread)
            return _unavailable(name, "policy_filtered", f"{status}. {refusal or unread}".rstrip(), do)
        reason, action = _REASONS[status]
        if status is ToolStatus.PENDING_APPROVAL and _is_changed(known, tool):
            reason = "tool_changed"
        return _unavailable(name, reason, f"{status}, by policy.", do, action)

    def _not_connected(self, name: str, server: str, upstream: Upstream) -> dict[str, Any]:
        outcome = self._view.loads.outcome(server)
        if outcome is None or outcome.error is None:
            return _unavailable(name, "server_initializing", f"Server {as_code(server)} is not connected yet.")
        do = " ".join(self._view.loads.messages([server], self._view.phrases.about(server)).values())
        detail = f"Server {as_code(server)} {outcome.error}."
        if outcome.status is LoadStatus.DENIED:
            return _unavailable(name, "oauth_required", detail, do, "login")
        return _unavailable(name, "server_unhealthy", detail, do, "view_logs")

    async def _not_found(self, name: str) -> dict[str, Any]:
        judgement = await self._view.decisions.judge(self._view.inventory.known_servers().values())
        near = near_names(name, (tool.name for tool in judgement.callable))
        result = _unavailable(name, "not_found", _NOT_FOUND, _LOOK, "configure")
        return result | ({"did_you_mean": near} if near else {})


def _is_changed(known: KnownServer, tool: str) -> bool:
    record = (known.records or {}).get(tool)
    return record is not None and record.status_of(known.fingerprints.get(tool)) == "changed"


def _apply_filters(name: str, known: KnownServer, tool: str, filters: frozenset[str]) -> dict[str, Any] | None:
    """Return the result for a tool that the client's own filters exclude; None if it passes them."""
    listed = known.by_name[tool]
    for wanted, hint in _FILTERS.items():
        if wanted not in filters:
            continue
        said = listed is not None and listed.annotations.HasField(hint)  # type: ignore[arg-type]  # a field of `_FILTERS`
        if not said:
            detail = f"The server does not annotate the tool, which `{wanted}` needs."
            return _unavailable(name, "missing_annotation", detail, action="configure")
        if getattr(listed.annotations, hint) is not (wanted == "read_only_only"):  # type: ignore[union-attr]
            return _unavailable(name, "policy_filtered", f"The annotation of the tool does not pass `{wanted}`.")
    return None


def _unavailable(name: str, reason: str, detail: str, remediation: str = "", action: str = "") -> dict[str, Any]:
    result = {"id": name, "status": "unavailable", "reason": reason, "retryable": reason in _RETRYABLE}
    return result | {
        key: value for key, value in (("action", action), ("detail", detail), ("remediation", remediation)) if value
    }


def _class_of(result: Mapping[str, Any]) -> int:
    """Return the place of a result among the verdicts."""
    if result["status"] == READY:
        return VERDICTS.index(READY)
    if result["retryable"]:
        return VERDICTS.index(RETRYABLE)
    return VERDICTS.index(UNKNOWN_IDS if result["reason"] == "not_found" else BLOCKED)
