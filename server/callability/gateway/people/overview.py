"""What the page shows: servers, tools that wait for a review, tools that are locked, and what happened."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from callability.adapter import Judgement
from callability.contract.finding import Place
from callability.contract.vocabulary import LiftedBy, ToolStatus
from callability.gateway.config.approvals import ApprovalRecord, Definitions, approved_part, sort_sets
from callability.gateway.inventory import KnownServer
from callability.gateway.people.recent_changes import RecentChanges
from callability.gateway.runtime.runtime import GatewayRuntime
from callability.gateway.tools.discovery import server_entry
from callability.gateway.upstream import UpstreamTool
from callability.v1.callability_service_pb2 import ExplainToolResponse

Plain = dict[str, Any]
MAX_FIELDS = 200
"""Fields of a definition that are shown one by one; a server decides how many it has."""
_FIRST = ("name", "title", "description")
_Fields = list[dict[str, str | None]]


class Overview:
    """What is in effect now, as JSON; use it in one event loop."""

    def __init__(self, runtime: GatewayRuntime, changes: RecentChanges) -> None:
        self._runtime = runtime
        self._changes = changes
        self._refused = runtime.options.metrics.refused_calls
        self._fields: dict[tuple[str, str], _Fields] = {}
        """The fields of what waits, by the fingerprints of the tool and of its record."""

    async def state(self, agent: str) -> Plain:
        """Return all that the page shows, with the verdicts that an agent gets.

        Raises:
            PolicyUnavailable: the policy gives no answer.
        """
        runtime, config = self._runtime, self._runtime.files.config
        known = runtime.inventory.known_servers()
        scope = config.agents[agent].servers if agent in config.agents else known
        decisions = runtime.decisions_for(agent)
        judgement = await decisions.judge([it for name, it in known.items() if name in scope])
        approvals = runtime.files.approvals_path(config)
        return {
            "config": str(config.path),
            "approvals": str(approvals) if approvals else "",
            "files": runtime.options.file_status.messages(),
            "agents": ["", *config.agents],
            "agent": agent,
            "servers": [self._server(name, it, judgement) for name, it in known.items()],
            "waiting": [*self._waiting(known)],
            "locked": [*_locked(known, judgement)],
            "callable": [*_callable(known, judgement)],
            "refused": [call._asdict() | {"count": count} for call, count in self._refused.latest],
            "changes": [change._asdict() for change in self._changes.latest],
        }

    async def why(self, agent: str, server: str, tool: str) -> Plain:
        """Return why a tool is locked for an agent: the rule that decides, and the lines that it follows from.

        Raises:
            KeyError: there is no such server.
            PolicyUnavailable: the policy gives no answer.
        """
        known = self._runtime.inventory.known_servers()[server]
        response = await self._runtime.decisions_for(agent).explain(known, tool)
        return {
            "why": response.trials[-1].why if response.trials else "",
            "rule": response.verdict.rule,
            "revision": response.revision,
            "facts": [{"fact": each.fact, "value": each.value} for each in response.facts],
            "places": [*self._places(known, server, tool, response)],
        }

    def _server(self, name: str, known: KnownServer, judgement: Judgement) -> Plain:
        runtime = self._runtime
        outcome = runtime.loads.outcome(name)
        entry = server_entry(runtime.inventory, name, None, outcome)
        tools = [each for each in judgement.tools if each.server == name]
        return entry | {
            "catalog": runtime.inventory.is_joined(name),
            "trust": known.config.trust,
            "loading": runtime.loads.is_pending(name),
            "callable": sum(each.callable for each in tools),
            "locked": sum(not each.callable for each in tools),
            "names": sorted(known.fingerprints) if known.config.quarantined else [],
            "digest": digest_of(known),
        }

    def _waiting(self, known: Mapping[str, KnownServer]) -> Iterator[Plain]:
        for server, it in known.items():
            for tool in _first_of_each_name(it.tools):
                record = (it.records or {}).get(tool.name)
                status = approval_of(it, tool, record)
                if status not in {"pending", "changed"} or tool.definition is None:
                    continue
                yield {
                    "server": server,
                    "tool": tool.name,
                    "kind": "changed" if status == "changed" else "new",
                    "sha256": tool.fingerprint.current,
                    "blocked": bool(record and record.disabled),
                    "denied": it.config.config_denies(tool.name),
                    "fields": self._fields_of(tool, record),
                }

    def _fields_of(self, tool: UpstreamTool, record: ApprovalRecord | None) -> _Fields:
        """Return the fields of a definition, or those that differ from the one that was approved."""
        pin = record.sha256 if record is not None and record.is_pinned else ""
        key = tool.fingerprint.current, pin
        if key not in self._fields:
            if len(self._fields) > 5_000:
                self._fields.clear()
            self._fields[key] = self._compared(tool, pin)
        return self._fields[key]

    def _compared(self, tool: UpstreamTool, pin: str) -> _Fields:
        assert tool.definition is not None
        now = dict(_values(approved_part(tool.definition)))
        path = self._runtime.files.approvals_path(self._runtime.files.config)
        kept = Definitions.beside(path).kept(pin) if pin and path else None
        if kept is None:
            fields: _Fields = [{"field": name, "now": value} for name, value in now.items()]
        else:
            sort_sets(kept)
            before = dict(_values(kept))
            names = [name for name in dict.fromkeys((*before, *now)) if before.get(name) != now.get(name)]
            fields = [{"field": name, "before": before.get(name), "now": now.get(name)} for name in names]
        if len(fields) > MAX_FIELDS:
            more = f"{len(fields) - MAX_FIELDS:,} more fields: `callability approvals show` prints all"
            fields = [*fields[:MAX_FIELDS], {"field": "…", "now": more}]
        return fields

    def _places(self, known: KnownServer, server: str, tool: str, response: ExplainToolResponse) -> Iterator[Plain]:
        """Yield the lines of the files that give the facts by which a tool is locked."""
        config = self._runtime.files.config
        section = "catalog" if server in config.catalog else "mcpServers"
        read = {fact.fact: fact.value for trial in response.trials[-1:] for fact in trial.reads}
        if read.get("server.enabled") == "false":
            yield _place(config.place(section, server, "enabled"), "`enabled: false` of the server")
        if read.get("server.quarantined") == "true":
            yield _place(config.place(section, server, "quarantined"), "`quarantined: true` of the server")
        if read.get("tool.config_denied") == "true":
            entry = known.config
            if entry.enabled_tools is not None:
                yield _place(config.key_place(section, server, "enabled_tools"), "`enabled_tools` does not name it")
            elif tool in entry.disabled_tools:
                at = config.place(section, server, "disabled_tools", entry.disabled_tools.index(tool))
                yield _place(at, "`disabled_tools` names it")
        approvals = self._runtime.files.approvals_path(config)
        if approvals and any(fact.startswith("approval.") for fact in read):
            words = "its approval record" if tool in (known.records or {}) else "it has no approval record"
            yield {"place": str(approvals), "words": words}


def approval_of(known: KnownServer, tool: UpstreamTool, record: ApprovalRecord | None) -> str:
    """Return the approval that counts for a listed tool; empty if it is not known."""
    if known.records is None:
        return ""
    if record is None:
        return "approved" if known.config.trust == "auto" else "pending"
    if known.config.trust == "first_use" and record.is_open:
        return "pending"
    return record.status_of(tool.fingerprint) or ""


def listed_tool(known: KnownServer, name: str) -> UpstreamTool | None:
    """Return a tool as its server lists it, the first of several with its name; None if it is not listed."""
    return next((tool for tool in known.tools if tool.name == name), None)


def digest_of(known: KnownServer) -> str:
    """Return what identifies a server as a person sees it: its switches, and the tools that it lists."""
    config = known.config
    forms = {name: form.current for name, form in known.fingerprints.items()}
    seen = [config.enabled, config.quarantined, config.trust, forms]
    return hashlib.sha256(json.dumps(seen, sort_keys=True).encode()).hexdigest()


def _first_of_each_name(tools: Iterable[UpstreamTool]) -> Iterable[UpstreamTool]:
    found: dict[str, UpstreamTool] = {}
    for tool in tools:
        found.setdefault(tool.name, tool)
    return found.values()


def _locked(known: Mapping[str, KnownServer], judgement: Judgement) -> Iterator[Plain]:
    for tool in judgement.locked:
        it = known[tool.server]
        record = (it.records or {}).get(tool.tool)
        listed = listed_tool(it, tool.tool)
        yield {
            "server": tool.server,
            "tool": tool.tool,
            "status": str(tool.status),
            "by_person": _is_liftable(it, tool.tool, tool.status),
            "blocked": bool(record and record.disabled),
            "sha256": listed.fingerprint.current if listed else "",
        }


def _callable(known: Mapping[str, KnownServer], judgement: Judgement) -> Iterator[Plain]:
    for tool in judgement.callable:
        listed = listed_tool(known[tool.server], tool.tool)
        sha256 = listed.fingerprint.current if listed else ""
        yield {"server": tool.server, "tool": tool.tool, "sha256": sha256}


def _is_liftable(known: KnownServer, tool: str, status: ToolStatus) -> bool:
    """Say whether a person may lift a lock: never what the operator denies, whatever else locks the tool."""
    return status.lifted_by is LiftedBy.USER and not known.config.config_denies(tool)


def _values(definition: Plain) -> Iterator[tuple[str, str]]:
    """Yield each value of a definition with the path that leads to it: what a person reads first comes first."""
    ordered = {key: definition[key] for key in (*_FIRST, *sorted(definition.keys() - {*_FIRST})) if key in definition}
    # Not by recursion: a server decides how deep its schemas are.
    waiting: list[tuple[str, Any]] = [("", ordered)]
    while waiting:
        path, part = waiting.pop()
        if isinstance(part, dict) and part:
            keys = [*part] if not path else sorted(part)
            waiting += [(f"{path}.{key}" if path else key, part[key]) for key in reversed(keys)]
        elif isinstance(part, list) and part:
            waiting += [(f"{path}[{index}]", part[index]) for index in reversed(range(len(part)))]
        else:
            yield path, part if isinstance(part, str) else json.dumps(part, ensure_ascii=False)


def _place(place: Place, words: str) -> Plain:
    return {"place": str(place), "words": words}
