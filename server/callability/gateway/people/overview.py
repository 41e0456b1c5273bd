"""What the page shows, the last changes among it, and what a person does on it.

An act that names something which has changed since is refused.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from callability.adapter import Judgement
from callability.contract.finding import Place, as_code
from callability.contract.vocabulary import LiftedBy, ToolStatus, unrecordable
from callability.files import document
from callability.files.editing import EditRefused, rewrite
from callability.files.shipped_policy import shipped_policy
from callability.files.spelling import Tree, Value
from callability.gateway.config.approvals import (
    DEFAULT_APPROVALS,
    ApprovalRecord,
    Approvals,
    Definitions,
    approved_part,
    sort_sets,
)
from callability.gateway.config.config import Config
from callability.gateway.inventory import KnownServer
from callability.gateway.runtime.runtime import GatewayRuntime
from callability.gateway.tools.discovery import server_entry
from callability.gateway.upstream.listing import UpstreamTool
from callability.v1.callability_service_pb2 import ExplainToolResponse

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


Plain = dict[str, Any]
MAX_FIELDS = 200
"""Fields of a definition that are shown one by one; a server decides how many it has."""
RULES = "callability.yaml"
"""The file of a policy in whose rules a tool is locked."""
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
            "locked": [*_find_locked(known, judgement)],
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
        # It reads files.
        places = await asyncio.to_thread(lambda: [*self._places(known, server, tool, response)])
        return {
            "why": response.trials[-1].why if response.trials else "",
            "rule": response.verdict.rule,
            "revision": response.revision,
            "facts": [{"fact": each.fact, "value": each.value} for each in response.facts],
            "places": places,
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
            self._fields[key] = self._compare(tool, pin)
        return self._fields[key]

    def _compare(self, tool: UpstreamTool, pin: str) -> _Fields:
        assert tool.definition is not None
        now = dict(_values(approved_part(tool.definition)))
        path = self._runtime.files.approvals_path(self._runtime.files.config)
        kept = Definitions.beside(path).find(pin) if pin and path else None
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
        """Yield the line of the rule that locks a tool, and those that give the facts by which it does."""
        yield self._place_of_rule(response.verdict.rule)
        config = self._runtime.files.config
        section = config.section(server)
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
            if tool in (known.records or {}):
                yield _place(_place_in(approvals, (server, tool)), "its approval record")
            else:
                yield _place(Place(str(approvals)), "it has no approval record")

    def _place_of_rule(self, rule: str) -> Plain:
        """Return the line of a rule, as the files of the policy are written now; or the service that decides by it."""
        options = self._runtime.options
        if options.policy_address:
            return {"place": options.policy_address, "words": f"rule `{rule}`, at the service that decides"}
        file = (options.policy_directory or shipped_policy()) / RULES
        return _place(_place_in(file, ("rules", rule)), f"rule `{rule}`")


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


def _find_locked(known: Mapping[str, KnownServer], judgement: Judgement) -> Iterator[Plain]:
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


def _place_in(file: Path, location: tuple[str, str]) -> Place:
    """Return where something is in a file, as it is written now: under a key, or an item with an `id` in a list."""
    section, name = location
    try:
        root = document.read(file)
    except document.Refused:
        return Place(str(file))
    node = document.node_at(root, section)
    match node:
        case document.DocumentMapping(entries=entries):
            found = [key.place for key, _ in entries if key.value == name]
        case document.DocumentSequence(items=items):
            found = [item.place for item in items if _id_of(item) == name]
        case _:
            found = []
    return found[0] if found else Place(str(file))


def _id_of(item: document.Node) -> object:
    value = document.node_at(item, "id")
    return value.value if isinstance(value, document.Scalar) else None


def _place(place: Place, words: str) -> Plain:
    return {"place": str(place), "words": words}


Act = Literal["approve", "block", "unblock", "quarantine", "release", "enable", "retry"]
ACTS: tuple[Act, ...] = ("approve", "block", "unblock", "quarantine", "release", "enable", "retry")
_SWITCHES: dict[Act, tuple[str, bool]] = {
    "quarantine": ("quarantined", True),
    "release": ("quarantined", False),
    "enable": ("enabled", True),
}


class NotDone(Exception):
    """An act that changed nothing; `code` and the text say why."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


class Acts:
    """Writes what a person decides into the two files, as the commands do, and applies it; one act at a time."""

    def __init__(self, runtime: GatewayRuntime) -> None:
        self._runtime = runtime
        self._turn = asyncio.Lock()

    async def do(self, act: Act, server: str, tool: str, seen: str) -> str:
        """Do what a person decided about what was `seen`, a fingerprint or a digest, and return what was done.

        Raises:
            NotDone: it is something else by now, the operator denies it, or a file cannot be written.
        """
        async with self._turn:
            known = self._runtime.inventory.known_servers().get(server)
            if known is None:
                raise NotDone("changed-meanwhile", f"there is no server {as_code(server)} any more")
            if act in _SWITCHES or act == "retry":
                done = await self._switch(act, server, known, seen)
            else:
                done = await self._record(act, server, known, tool, seen)
            await self._runtime.read_files()
            return done

    async def _switch(self, act: Act, server: str, known: KnownServer, seen: str) -> str:
        if server not in self._runtime.files.config.servers:
            raise NotDone("not-here", f"server {as_code(server)} is of the catalog: agents enable and disable it")
        if digest_of(known) != seen:
            raise NotDone("changed-meanwhile", f"server {as_code(server)} has changed since it was shown: look again")
        config = self._runtime.files.config.path
        if act == "retry":
            # A config that is written again has the servers opened that are not connected.
            await self._write(config, {}, touch=True)
            return f"server {as_code(server)} is tried again"
        key, value = _SWITCHES[act]
        await self._write(config, {"mcpServers": {server: {key: value}}})
        return f"server {as_code(server)}: `{key}: {str(value).lower()}`"

    async def _record(self, act: Act, server: str, known: KnownServer, tool: str, seen: str) -> str:
        listed = listed_tool(known, tool)
        subject = f"tool {as_code(tool)} of server {as_code(server)}"
        if (listed.fingerprint.current if listed else "") != seen:
            raise NotDone("changed-meanwhile", f"{subject} has changed since it was shown: look again")
        if known.records is None:
            raise NotDone("not-written", "the approvals file cannot be read: correct it first")
        record = known.records.get(tool)
        if record is None and unrecordable(tool):
            raise NotDone("not-written", f"{subject} cannot have a record: {unrecordable(tool)}")
        if act == "approve":
            return await self._approve(server, known, listed, subject)
        values: dict[str, Value] = {"disabled": act == "block"}
        if record is None and known.config.trust == "manual":
            # A record without a status is approved, and this tool waits for a review.
            values["status"] = "pending"
        await self._write_records({server: {tool: values}})
        return f"{subject} is {'blocked' if act == 'block' else 'not blocked any more'}"

    async def _approve(self, server: str, known: KnownServer, listed: UpstreamTool | None, subject: str) -> str:
        if listed is None or listed.definition is None:
            raise NotDone("changed-meanwhile", f"{subject} is not listed with a definition to approve")
        if known.config.config_denies(listed.name):
            raise NotDone("denied", f"{subject} is denied by the operator, in the config of the gateway")
        if approval_of(known, listed, (known.records or {}).get(listed.name)) not in {"pending", "changed"}:
            raise NotDone("changed-meanwhile", f"{subject} does not wait for a review any more")
        form, definition = listed.fingerprint.current, approved_part(listed.definition)
        path = self._approvals_path
        await self._to_thread(path, lambda: Definitions.beside(path).keep(form, definition))
        await self._write_records({server: {listed.name: {"status": "approved", "sha256": form}}})
        return f"{subject} is approved in the form {form}"

    @property
    def _approvals_path(self) -> Path:
        config = self._runtime.files.config
        return self._runtime.files.approvals_path(config) or config.path.with_name(DEFAULT_APPROVALS)

    async def _write_records(self, tree: Tree) -> None:
        """Write records; a config that names no approvals gets the entry, as the commands write it."""
        config = self._runtime.files.config
        is_named = self._runtime.files.approvals_path(config) is not None
        await self._write(self._approvals_path, tree, create=not is_named)
        if not is_named:
            await self._write(config.path, {"approvals": DEFAULT_APPROVALS})

    async def _write(self, path: Path, tree: Tree, *, create: bool = False, touch: bool = False) -> None:
        def write() -> None:
            rewrite(path, tree, create=create, touch=touch)
            self._runtime.records.note_page_edit(document.digest(document.read_bytes(path)))

        await self._to_thread(path, write)

    async def _to_thread(self, path: Path, write: Callable[[], object]) -> None:
        """Write a file beside the event loop: another process may hold its lock."""
        try:
            await asyncio.to_thread(write)
        except (EditRefused, document.Refused) as error:
            raise NotDone("not-written", str(error)) from error
        except OSError as error:
            why = (error.strerror or "error").lower()
            raise NotDone("not-written", f"{as_code(str(path))} cannot be written: {why}") from error
