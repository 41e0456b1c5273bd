"""The last changes of what agents can call, in memory: edits of the two files, and definitions of tools."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from callability.gateway.config import Approvals, Config
from callability.gateway.config.approvals import ApprovalRecord
from callability.gateway.upstream import UpstreamTool

MAX_CHANGES = 200
_MAX_TOOLS = 20
"""Tools of one list that are named; the others are counted."""


class RecentChange(NamedTuple):
    """A change: when, in seconds since 1970, of which server and tool, and what."""

    time: float
    server: str
    tool: str
    what: str


class RecentChanges:
    """Compares the files and the lists of tools with what they were before; use it in one event loop."""

    def __init__(self, config: Config, approvals: Approvals, clock: Callable[[], float] = time.time) -> None:
        self._config, self._approvals = config, approvals
        self._clock = clock
        self._forms: dict[str, Mapping[str, str]] = {}
        self._changes: deque[RecentChange] = deque(maxlen=MAX_CHANGES)

    @property
    def latest(self) -> tuple[RecentChange, ...]:
        """The changes, the latest first."""
        return tuple(reversed(self._changes))

    def take_files(self, config: Config, approvals: Approvals) -> None:
        """Note what an edit of the files changed."""
        for name in dict.fromkeys((*self._config.servers, *config.servers)):
            for what in _server_changes(self._config, config, name):
                self._add(name, "", what)
        for server in dict.fromkeys((*self._approvals.records, *approvals.records)):
            before, now = self._approvals.records.get(server, {}), approvals.records.get(server, {})
            for tool in dict.fromkeys((*before, *now)):
                what = _record_change(before.get(tool), now.get(tool))
                if what:
                    self._add(server, tool, what)
        self._config, self._approvals = config, approvals

    def take_list(self, server: str, tools: Iterable[UpstreamTool]) -> None:
        """Note what a list of a server's tools changed; nothing of the first."""
        now = {tool.name: tool.fingerprint.current for tool in tools}
        before = self._forms.get(server)
        self._forms[server] = now
        if before is None or before == now:
            return
        found = [
            (name, "the server changed its definition") for name in now if name in before and before[name] != now[name]
        ]
        found += [(name, "the server lists it now") for name in now if name not in before]
        found += [(name, "the server does not list it any more") for name in before if name not in now]
        for name, what in found[:_MAX_TOOLS]:
            self._add(server, name, what)
        if len(found) > _MAX_TOOLS:
            self._add(server, "", f"{len(found) - _MAX_TOOLS:,} more of its tools came, went or changed")

    def _add(self, server: str, tool: str, what: str) -> None:
        self._changes.append(RecentChange(self._clock(), server, tool, what))


def _server_changes(before: Config, now: Config, name: str) -> Iterator[str]:
    if name not in now.servers or name not in before.servers:
        yield "added to the config" if name in now.servers else "removed from the config"
        return
    one, other = before.servers[name], now.servers[name]
    if one.enabled != other.enabled:
        yield "switched on" if other.enabled else "switched off"
    if one.quarantined != other.quarantined:
        yield "put in quarantine" if other.quarantined else "released from quarantine"
    if (one.enabled_tools, one.disabled_tools) != (other.enabled_tools, other.disabled_tools):
        yield "its lists of allowed and denied tools changed"
    if one.trust != other.trust:
        yield f"its `trust` became `{other.trust}`"


def _record_change(before: ApprovalRecord | None, now: ApprovalRecord | None) -> str:
    if now == before:
        return ""
    if now is None:
        return "its approval record was removed"
    if (before.disabled if before else False) != now.disabled:
        return "blocked" if now.disabled else "unblocked"
    if now.status == "approved" and now.has_status:
        return "approved"
    return "its approval record changed"
