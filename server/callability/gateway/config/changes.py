"""What differs between two readings of the config or of the approvals, as records have it: names, and no secrets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from callability.gateway.config.approvals import ApprovalRecord, Approvals
from callability.gateway.config.config import Config
from callability.gateway.config.model import AgentConfig, ServerConfig
from callability.records.format import BY_GATEWAY, Change

Decided = tuple[Change, Mapping[str, Any]]
"""What a person changed, and the members of its record."""
_RECORDED_BY_THEMSELVES = {"enabled", "quarantined", "trust", "enabled_tools", "disabled_tools", "servers"}


def approval_changes(before: Approvals, now: Approvals) -> Iterator[Decided]:
    """Yield what differs between two readings of the approvals."""
    if not (before.readable and now.readable):
        return
    for server in sorted({*before.records, *now.records}):
        old, new = before.records.get(server, {}), now.records.get(server, {})
        for tool in sorted({*old, *new}):
            if old.get(tool) != new.get(tool):
                yield from _record_changes(server, tool, old.get(tool), new.get(tool))


def _record_changes(
    server: str, tool: str, old: ApprovalRecord | None, new: ApprovalRecord | None
) -> Iterator[Decided]:
    about = {"server": server, "tool": tool}
    if new is None:
        yield Change.RECORD_REMOVED, about
        return
    if bool(new.disabled) != bool(old.disabled if old else False):
        yield Change.BLOCK if new.disabled else Change.UNBLOCK, about
    was = (old.status, old.sha256) if old else (None, "")
    if not (new.has_status or new.is_pinned):
        if old is not None and (old.has_status or old.is_pinned):
            yield Change.RECORD_REMOVED, about
    elif new.status == "approved" and was != (new.status, new.sha256):
        # A gateway that records the first form of a tool writes no status.
        by = {} if new.has_status else {"command": BY_GATEWAY}
        yield Change.APPROVAL, {**about, "before": was[1], "after": new.sha256, **by}


def config_changes(
    before: Config, now: Config, listed: Callable[[str], Iterable[str]] = lambda _: ()
) -> Iterator[Decided]:
    """Yield what differs between two readings of the config: of its servers, their tools, and its agents.

    Of what may hold a secret, such as `args` and `headers`, only the name of the setting is there.

    Args:
        before: the config as it was.
        now: the config as it is.
        listed: returns the tools that a server lists; a new `enabled_tools` denies those that it does not name.
    """
    for server in dict.fromkeys((*before.names, *now.names)):
        if server not in now.names or server not in before.names:
            yield Change.SERVER_ADDED if server in now.names else Change.SERVER_REMOVED, {"server": server}
            continue
        old, new = before.server(server), now.server(server)
        yield from _server_changes(server, old, new, (server in before.catalog) != (server in now.catalog))
        for tool in sorted({*old.listed_tools, *new.listed_tools, *listed(server)}):
            if old.config_denies(tool) != new.config_denies(tool):
                denied = new.config_denies(tool)
                yield Change.TOOL_DENIED if denied else Change.TOOL_ALLOWED, {"server": server, "tool": tool}
    for agent in dict.fromkeys((*before.agents, *now.agents)):
        yield from _agent_changes(agent, before.agents.get(agent), now.agents.get(agent))


def _server_changes(server: str, old: ServerConfig, new: ServerConfig, is_moved: bool) -> Iterator[Decided]:
    about = {"server": server}
    if old.enabled != new.enabled:
        yield Change.SERVER_ENABLED if new.enabled else Change.SERVER_DISABLED, about
    if old.quarantined != new.quarantined:
        yield Change.QUARANTINE if new.quarantined else Change.RELEASE, about
    if old.trust != new.trust:
        yield Change.TRUST, {**about, "before": old.trust, "after": new.trust}
    fields = _differing(old, new) + (["catalog"] if is_moved else [])
    if (old.enabled_tools is None) != (new.enabled_tools is None):
        fields.append("enabled_tools")
    if fields:
        yield Change.SERVER_CHANGED, {**about, "fields": sorted(fields)}


def _agent_changes(agent: str, old: AgentConfig | None, new: AgentConfig | None) -> Iterator[Decided]:
    about = {"agent": agent}
    seen, sees = (tuple(each.servers) if each else () for each in (old, new))
    if old is None or new is None:
        yield Change.AGENT_ADDED if old is None else Change.AGENT_REMOVED, about
    elif fields := _differing(old, new):
        yield Change.AGENT_CHANGED, {**about, "fields": sorted(fields)}
    for server in dict.fromkeys((*seen, *sees)):
        if (server in seen) != (server in sees):
            yield Change.SCOPE_ADDED if server in sees else Change.SCOPE_REMOVED, {**about, "server": server}


def _differing(old: ServerConfig | AgentConfig, new: ServerConfig | AgentConfig) -> list[str]:
    names = type(old).model_fields.keys() - _RECORDED_BY_THEMSELVES
    return [name for name in names if getattr(old, name) != getattr(new, name)]
