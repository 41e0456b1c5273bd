"""Why an agent can or cannot call a tool: the verdict, each fact with its source, and the path to callable."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from callability.adapter import Phrases
from callability.adapter.judgement import status_of
from callability.client import PolicyUnavailable
from callability.client.inventory import HINTS
from callability.contract.enum_words import LIFTED_BY, PATH_END, RETRY
from callability.contract.finding import as_code, nearest
from callability.contract.vocabulary import EDIT_LABELS, NO_LABEL
from callability.gateway.config.approvals import ApprovalRecord
from callability.gateway.config.config import Config
from callability.gateway.config.model import ServerConfig
from callability.gateway.inventory import KnownServer
from callability.gateway.tools.call import ToolCalls
from callability.gateway.tools.decisions import AgentView
from callability.gateway.upstream.upstream import Upstream
from callability.process import logs
from callability.v1 import callability_service_pb2 as pb

Holder = Literal["config", "approvals", "listing", "call"]
"""The file that holds a fact, or what stands for it: what the server lists, or the names in the question."""
Keys = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class FactSource:
    """Who holds a fact; in a file, the keys that lead to it, and a note on what else there is to know."""

    holder: Holder
    keys: Keys = ()
    note: str = ""

    @property
    def as_json(self) -> dict[str, Any]:
        """The source for programs."""
        return {"in": self.holder, "keys": [*self.keys], "note": self.note}


@dataclass(frozen=True, slots=True)
class HandEdit:
    """An edit of one value in a file that changes a fact: `set` it, `remove` an entry, or `add` one to a list."""

    verb: Literal["set", "remove", "add"]
    source: FactSource
    value: str = ""

    @property
    def as_json(self) -> dict[str, Any]:
        """The edit for programs."""
        return {"do": self.verb, "value": self.value, **self.source.as_json}


class FactSources:
    """The sources of the facts about one tool, for one agent."""

    def __init__(self, config: Config, agent: str, known: KnownServer, tool: str) -> None:
        self._config = config
        self._agent = agent
        self._known = known
        self._tool = tool
        self._server = known.facts.name
        self._entry = (config.section(self._server), self._server)

    def of(self, fact: str) -> FactSource:
        """Return the source of a fact that rules read."""
        match fact.partition("."):
            case ("server", _, "enabled" | "quarantined" as key):
                return self._switch(key)
            case ("tool", _, "config_denied"):
                return self._tool_lists()
            case ("approval", _, key):
                return self._approval(key)
            case ("server" | "tool" | "agent", _, "name"):
                return FactSource("call", note="the name in the question")
            case ("server" | "tool" | "agent" as subject, _, label) if label.startswith("label."):
                return self._label(subject, label.removeprefix("label."))
            case ("annotations", _, hint):
                return FactSource("listing", note=self._annotation(hint))
            case ("caller", _, "refuses"):
                refusal = self._known.facts.refusals.get(self._tool, "")
                unlisted = _UNLISTED if self._known.by_name.get(self._tool) is None else ""
                return FactSource(
                    "listing", note=refusal or unlisted or "nothing in it keeps the gateway from calling it"
                )
            case _:
                return self._find_declaration(fact)

    def edit_for(self, fact: str, wanted: tuple[str, ...]) -> HandEdit | None:
        """Return the edit by hand that gives a fact one of the wanted values; None if a command does it, or nobody."""
        source = self.of(fact)
        value = next((each for each in wanted if each != NO_LABEL), "")
        if fact == "tool.config_denied":
            removed = isinstance(source.keys[-1], int)
            return HandEdit("remove" if removed else "add", source, self._tool)
        if source.holder not in ("config", "approvals") or not source.keys:
            return None
        if fact == "approval.status":
            return self._approving(source)
        if fact.startswith("approval.") and source.holder == "config":
            return None
        return HandEdit("set", source, value) if value else HandEdit("remove", source)

    def _approving(self, source: FactSource) -> HandEdit | None:
        """Return the edit of a record that approves the tool as it is listed now."""
        fingerprint = self._known.fingerprints.get(self._tool)
        match source.keys[-1]:
            case "status":
                return HandEdit("set", source, "approved")
            case "sha256" if fingerprint is not None:
                return HandEdit("set", source, fingerprint.current)
            case _:
                return None

    def _switch(self, key: str) -> FactSource:
        config = self._known.config
        if self._entry[0] == "catalog":
            return FactSource("config", self._entry, "an agent enabled the server")
        keys = (*self._entry, key)
        default = str(ServerConfig.model_fields[key].default).lower()
        return FactSource(
            "config", keys, "" if key in config.model_fields_set else f"not set: the default is `{default}`"
        )

    def _tool_lists(self) -> FactSource:
        config = self._known.config
        for key in ("enabled_tools", "disabled_tools"):
            names = getattr(config, key)
            if names and self._tool in names:
                return FactSource("config", (*self._entry, key, names.index(self._tool)), f"it is in `{key}`")
            if names and key == "enabled_tools":
                return FactSource("config", (*self._entry, key), "it is not in `enabled_tools`")
        return FactSource("config", self._entry, "it is in no tool list")

    def _approval(self, key: str) -> FactSource:
        records = self._known.records
        if records is None:
            return FactSource("approvals", note="the file cannot be read: every approval is unknown")
        record = records.get(self._tool)
        if record is None:
            trust = self._known.config.trust
            counts = "approved" if trust == "auto" else "pending until it has one"
            default = "" if "trust" in self._known.config.model_fields_set else ", the default,"
            note = f"no approval record: with `trust: {trust}`{default} the tool counts as {counts}"
            return FactSource("config", (*self._entry, "trust"), note)
        at = (self._server, self._tool)
        if key == "disabled":
            return FactSource("approvals", (*at, "disabled"))
        return self._approval_status(at, record)

    def _approval_status(self, at: Keys, record: ApprovalRecord) -> FactSource:
        fingerprint = self._known.fingerprints.get(self._tool)
        if record.status_of(fingerprint) != record.status and fingerprint is not None:
            note = f"the server lists the tool in another form, with the fingerprint `{fingerprint.current}`"
            return FactSource("approvals", (*at, "sha256"), note)
        if self._known.config.trust == "first_use" and record.is_open:
            return FactSource("approvals", at, "the record has no `sha256`, which `trust: first_use` needs")
        if record.status == "approved" and not record.has_status and not record.is_pinned:
            return FactSource("approvals", at, "a record without a `status` approves")
        # A status that a person wrote well is unknown only because of the fingerprint beside it.
        unread = record.status is None and record.has_status
        return FactSource("approvals", (*at, "sha256" if unread else "status"))

    def _label(self, subject: str, key: str) -> FactSource:
        config = self._known.config
        if subject == "agent":
            if self._agent not in self._config.agents:
                return FactSource("call", note="no agent of the config is named")
            labels, above = self._config.agents[self._agent].labels, Keys(("agents", self._agent, "labels"))
        elif subject == "server":
            labels, above = config.labels, (*self._entry, "labels")
        else:
            labels, above = config.tool_labels.get(self._tool, {}), (*self._entry, "tool_labels", self._tool)
        return FactSource("config", (*above, key), "" if key in labels else "no such label")

    def _annotation(self, hint: str) -> str:
        listed = self._known.by_name.get(self._tool)
        if listed is None:
            return _UNLISTED
        said = listed.annotations.HasField(hint)  # type: ignore[arg-type]  # the policy names the fields of the contract
        return f"the server says so by `{HINTS[hint]}`" if said else f"`{HINTS[hint]}` is left out: the default of MCP"

    def _find_declaration(self, fact: str) -> FactSource:
        config = self._known.config
        held: list[tuple[Any, Keys]] = [
            (config.tool_facts.get(self._tool, {}), (*self._entry, "tool_facts", self._tool)),
            (config.tool_fact_defaults, (*self._entry, "tool_fact_defaults")),
            (config.facts, (*self._entry, "facts")),
        ]
        if self._agent in self._config.agents:
            held.append((self._config.agents[self._agent].facts, ("agents", self._agent, "facts")))
        for facts, keys in held:
            if fact in facts:
                return FactSource("config", (*keys, fact))
        return FactSource("config", self._entry, "neither the server, the tool nor the agent has this fact")


_UNLISTED = "not known: the definition of the tool has not been read"


Report = dict[str, Any]
UNKNOWN_TOOL = "unknown_tool"
"""In place of a status: for the agent, the tool does not exist."""
NOT_CONNECTED = "not_connected"
"""The end of a path that leads to callable, of a tool whose server has failed: it has to connect again too."""
NOBODY = "nobody"
"""The end of a path on which somebody would have to change what the server lists."""


class LockReports:
    """Reports about tools for one agent, whose name is empty for a caller without one."""

    def __init__(self, view: AgentView, calls: ToolCalls) -> None:
        self._view = view
        self._calls = calls

    async def report(self, config: Config, server: str, tool: str) -> Report:
        """Return what the agent would be answered now, and why; `config` is the one in effect, with every server.

        Nothing is called and no server is opened.

        Raises:
            PolicyUnavailable: the policy gave no answer.
        """
        with logs.report():
            answer = await self._calls.expected_answer(server, tool)
        base: Report = {
            "agent": self._view.agent,
            "server": server,
            "tool": tool,
            "answer": answer["content"][0]["text"] if answer is not None else None,
        }
        if server not in self._view.inventory.servers:
            return base | self._out_of_sight(config, server)
        known, upstream = self._view.inventory.known(server), self._view.inventory.upstream(server)
        base |= self._state(config, server, upstream)
        if upstream is not None and tool not in known.by_name:
            return base | self._not_listed(config, known, tool)
        report = base | await self._report_decision(config, known, tool)
        if report["end"] == "callable":
            report["end"] = _end_in_practice(report)
        return report

    def _out_of_sight(self, config: Config, server: str) -> Report:
        """Return the report about a server that the agent does not see, or that is not there."""
        if server not in config.names:
            near = nearest(server, config.names)
            why = f"the config has no server {as_code(server)}" + (f"; did you mean {as_code(near)}?" if near else "")
            return _unknown(
                "no_such_server", why, FactSource("config", ("mcpServers",)), "add the server to the config"
            )
        if not self._view.inventory.sees(server):
            source = FactSource("config", ("agents", self._view.agent, "servers"))
            who = f"agent {as_code(self._view.agent)}"
            why = f"server {as_code(server)} is out of the scope of {who}: to it, the tool does not exist"
            return _unknown("out_of_scope", why, source, f"add {as_code(server)} to the agent's `servers`")
        why = f"server {as_code(server)} is in the catalog, and nobody has enabled it"
        do = f"have the agent call `enable_server` with the id {as_code(server)}"
        return _unknown("not_enabled", why, FactSource("config", ("catalog", server)), do, by="user")

    def _not_listed(self, config: Config, known: KnownServer, tool: str) -> Report:
        """Return the report about a tool whose name is not known of its server."""
        server = known.facts.name
        if not known.connected:
            why = f"server {as_code(server)} is not connected, so that its tools are not known"
            source = FactSource("config", (config.section(server), server))
            return _unknown("not_connected", why, source, self._view.phrases.about(server)["check_server"])
        near = nearest(tool, (name for name in known.by_name if name.isascii() and name.isprintable()))
        why = f"server {as_code(server)} lists no tool {as_code(tool)}" + (
            f"; did you mean {as_code(near)}?" if near else ""
        )
        do = f"call a tool that the server lists: {self._view.phrases.list_tools(server)} shows them"
        return _unknown("no_such_tool", why, FactSource("listing"), do, by="none")

    async def _report_decision(self, config: Config, known: KnownServer, tool: str) -> Report:
        """Return the report about a tool that the policy decides."""
        try:
            response = await self._view.decisions.explain(known, tool)
        except PolicyUnavailable as error:
            if error.code != "PERMISSION_DENIED":
                raise
            why = f"{error}: a report needs the right `explain` at the service"
            raise PolicyUnavailable(why, error.code, error.details) from error
        verdict, server = response.verdict, known.facts.name
        sources = FactSources(config, self._view.agent, known, tool)
        phrases = self._view.phrases.reported_about(server, tool, _label_changes(response), self._view.agent)
        status = status_of(verdict.status)
        return {
            "status": str(status),
            "because": "verdict",
            "rule": verdict.rule,
            "undetermined": verdict.undetermined,
            "unread": [*verdict.unread],
            "lifted_by": LIFTED_BY.word(verdict.lifted_by),
            "retry": RETRY.word(verdict.retry),
            "revision": response.revision,
            "facts": [
                {"fact": each.fact, "value": each.value, "from": sources.of(each.fact).as_json}
                for each in response.facts
            ],
            "rules_tried": [{"rule": each.rule, "why": each.why} for each in response.trials],
            "steps": [*_steps(response, sources, phrases)],
            "end": _end(response),
            "find_out": [*response.path.find_out],
        }

    def _state(self, config: Config, server: str, upstream: Upstream | None) -> Report:
        """Return the state of a server, why it failed, and who can do something if it is not connected."""
        failure = upstream.failure if upstream else None
        state: Report = {"state": upstream.state if upstream else "disabled", "load": None, "failure": failure}
        outcome = self._view.loads.outcome(server)
        if upstream is None or upstream.state == "connected" or outcome is None or outcome.error is None:
            return {"connection": state}
        messages = self._view.loads.messages([server], self._view.phrases.about(server))
        section = config.section(server)
        state["load"] = {
            "status": str(outcome.status),
            "why": outcome.error,
            "do": " ".join(messages.values()),
            "from": FactSource("config", (section, server)).as_json,
        }
        return {"connection": state}


def _unknown(because: str, why: str, source: FactSource, do: str, *, by: str = "operator") -> Report:
    """Return the part of a report about a tool that does not exist for the agent: no rule decided."""
    return {
        "status": UNKNOWN_TOOL,
        "because": because,
        "why": why,
        "lifted_by": by,
        "from": source.as_json,
        "do": do,
        "facts": [],
        "steps": [],
    }


def _label_changes(response: pb.ExplainToolResponse) -> tuple[pb.FactChange, ...]:
    changes = (change for step in response.path.steps for change in step.changes)
    return tuple(change for change in changes if change.action == EDIT_LABELS.name)


def _steps(response: pb.ExplainToolResponse, sources: FactSources, phrases: Phrases) -> Iterator[Report]:
    for step in response.path.steps:
        yield {
            "rule": step.rule,
            "status": str(status_of(step.status)),
            "changes": [_change(change, sources, phrases) for change in step.changes],
        }


def _change(change: pb.FactChange, sources: FactSources, phrases: Phrases) -> Report:
    edit = sources.edit_for(change.fact, tuple(change.wanted_values))
    return {
        "fact": change.fact,
        "current": change.current,
        "wanted": [*change.wanted_values],
        "by": LIFTED_BY.word(change.changed_by) if change.changed_by else "none",
        "do": phrases.get(change.action) or change.phrase,
        "from": sources.of(change.fact).as_json,
        "edit": edit.as_json if edit is not None else None,
    }


def _end_in_practice(report: Report) -> str:
    """Return what a path to callable leads to, which is a matter of the policy alone."""
    if any(change["by"] == "none" for step in report["steps"] for change in step["changes"]):
        return NOBODY
    connection = report["connection"]
    return NOT_CONNECTED if connection["failure"] or connection["load"] else "callable"


def _end(response: pb.ExplainToolResponse) -> str:
    """Return what the path leads to; `not_known` if the policy is too large to say."""
    return PATH_END.word(response.path.end) if response.HasField("path") else "not_known"
