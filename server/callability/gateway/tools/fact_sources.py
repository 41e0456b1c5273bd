"""Where each fact about a tool comes from: a value of a file by its keys, or what no file holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from callability.contract.vocabulary import NO_LABEL
from callability.gateway.config import Config, ServerConfig
from callability.gateway.config.approvals import ApprovalRecord
from callability.gateway.inventory import KnownServer

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
        self._entry = ("catalog" if self._server in config.catalog else "mcpServers", self._server)

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
        return (
            f"the server says so by `{_HINTS[hint]}`" if said else f"`{_HINTS[hint]}` is left out: the default of MCP"
        )

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
_HINTS = {
    "read_only": "readOnlyHint",
    "destructive": "destructiveHint",
    "idempotent": "idempotentHint",
    "open_world": "openWorldHint",
}
