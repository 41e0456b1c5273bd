"""What the gateway knows: its servers, their tools, and the facts that it sends about them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass

from mcp_types import Tool

from callability.adapter import ToolText
from callability.gateway.config import Config, ServerConfig
from callability.gateway.config.approvals import ApprovalRecord, Approvals
from callability.gateway.search import SearchDocument
from callability.gateway.upstream import Upstream, UpstreamTool
from callability.v1 import facts_pb2
from callability.v1.callability_service_pb2 import ServerTools
from callability.v1.callability_service_pb2 import Tool as WireTool

_STATUS: Mapping[str, facts_pb2.ApprovalStatus.ValueType] = {
    "approved": facts_pb2.APPROVAL_STATUS_APPROVED,
    "pending": facts_pb2.APPROVAL_STATUS_PENDING,
    "changed": facts_pb2.APPROVAL_STATUS_CHANGED,
}


@dataclass(frozen=True, slots=True)
class ListedTool:
    """A tool as its upstream listed it: what is shown of it, what is searched, and what rules may read."""

    text: ToolText
    document: SearchDocument
    annotations: facts_pb2.Annotations


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of a server's tools, as long as its upstream lists the same and stands, or does not."""

    tools: tuple[UpstreamTool, ...]
    connected: bool
    by_name: Mapping[str, ListedTool | None]
    fingerprints: Mapping[str, str]
    question: ServerTools


class Inventory:
    """The servers of a config, with their approvals and upstreams; those of disabled servers are never started."""

    def __init__(self, config: Config, approvals: Approvals, upstreams: Mapping[str, Upstream]) -> None:
        self._approvals = approvals
        self._upstreams = upstreams
        self._known: dict[str, _Known] = {}
        self.servers: Mapping[str, ServerConfig] = config.servers
        """The servers, in the order of the config."""

    def scoped(self, visible: Collection[str]) -> Inventory:
        """Return the inventory of an agent that may see some servers: to it, no others exist (FR-007)."""
        scoped = copy(self)
        scoped.servers = {name: server for name, server in self.servers.items() if name in visible}
        return scoped

    def upstream(self, server: str) -> Upstream | None:
        """Return the upstream of a server; None for one that is disabled."""
        return self._upstreams[server] if self.servers[server].enabled else None

    def tools(self, server: str) -> Mapping[str, ListedTool | None]:
        """Return the known tools of a server by name (A.4), None where no text of it is known.

        Of a connected server those that it lists; of any other those that it listed earlier, those with an approval
        record, and those in its two lists.
        """
        return self._known_of(server).by_name

    def listed(self, server: str, tool: str) -> ListedTool | None:
        """Return a tool as its upstream listed it, or None where no text of it is known."""
        return self._known_of(server).by_name.get(tool)

    def question(self, server: str) -> ServerTools:
        """Return the part of a request that asks about all known tools of a server; it is not to be changed."""
        return self._known_of(server).question

    def server_facts(self, server: str) -> facts_pb2.ServerFacts:
        """Return the facts of a server."""
        config = self.servers[server]
        labels = facts_pb2.Labels(values=config.labels)
        return facts_pb2.ServerFacts(enabled=config.enabled, quarantined=config.quarantined, labels=labels)

    def tool_facts(self, server: str, tool: str) -> facts_pb2.ToolFacts:
        """Return the facts of a tool, known or not."""
        known = self._known_of(server)
        return self._tool_facts(server, tool, known.by_name.get(tool), known.fingerprints.get(tool))

    def _tool_facts(
        self, server: str, tool: str, listed: ListedTool | None, fingerprint: str | None
    ) -> facts_pb2.ToolFacts:
        config = self.servers[server]
        return facts_pb2.ToolFacts(
            config_denied=config.config_denies(tool),
            approval=self._approval(config, server, tool, fingerprint),
            annotations=listed.annotations if listed else None,
            labels=facts_pb2.Labels(values=config.tool_labels.get(tool, {})),
        )

    def _known_of(self, server: str) -> _Known:
        upstream = self._upstreams[server]
        tools, connected = upstream.tools, upstream.state == "connected"
        known = self._known.get(server)
        if known is None or known.tools is not tools or known.connected is not connected:
            by_name = self._by_name(server, tools, connected=connected)
            # Of a name that stands twice the first is the tool.
            fingerprints = {tool.name: tool.sha256 for tool in reversed(tools)}
            asked = [
                WireTool(name=name, facts=self._tool_facts(server, name, listed, fingerprints.get(name)))
                for name, listed in by_name.items()
            ]
            question = ServerTools(name=server, facts=self.server_facts(server), tools=asked)
            known = self._known[server] = _Known(tools, connected, by_name, fingerprints, question)
        return known

    def _by_name(self, server: str, tools: Iterable[UpstreamTool], *, connected: bool) -> dict[str, ListedTool | None]:
        by_name: dict[str, ListedTool | None] = {}
        for tool in tools:
            by_name.setdefault(tool.name, _listed(server, tool.definition) if tool.definition else None)
        if not connected:
            for name in (*self._approvals.tools(server), *self.servers[server].listed_tools):
                by_name.setdefault(name, None)
        return by_name

    def _approval(
        self, config: ServerConfig, server: str, tool: str, fingerprint: str | None
    ) -> facts_pb2.Approval | None:
        """No record counts as pending under `trust: manual` (A.2); None where nothing can be read."""
        if not self._approvals.readable:
            return None
        record = self._approvals.record(server, tool)
        if record is None:
            if config.trust == "auto":
                return facts_pb2.Approval()
            record = ApprovalRecord(disabled=False, status="pending")
        status = record.status_of(fingerprint)
        wire = None if status is None else _STATUS[status]
        return facts_pb2.Approval(record=facts_pb2.ApprovalRecord(disabled=record.disabled, status=wire))


class Texts(Mapping[str, ToolText]):
    """What upstreams say of their tools, by `server:tool`."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory

    def __getitem__(self, name: str) -> ToolText:
        server, _, tool = name.partition(":")
        listed = self._inventory.listed(server, tool) if server in self._inventory.servers else None
        if listed is None:
            raise KeyError(name)
        return listed.text

    def __iter__(self) -> Iterator[str]:
        for server in self._inventory.servers:
            yield from (f"{server}:{tool}" for tool, listed in self._inventory.tools(server).items() if listed)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _listed(server: str, tool: Tool) -> ListedTool:
    annotations = tool.annotations.model_dump(by_alias=True, exclude_none=True) if tool.annotations else None
    properties = tool.input_schema.get("properties")
    parameters = tuple(map(str, properties)) if isinstance(properties, dict) else ()
    document = SearchDocument(tool.name, server, tool.title or "", tool.description or "", parameters)
    return ListedTool(ToolText(tool.description, tool.input_schema, annotations), document, _annotations(tool))


def _annotations(tool: Tool) -> facts_pb2.Annotations:
    given = tool.annotations
    if given is None:
        return facts_pb2.Annotations()
    return facts_pb2.Annotations(
        read_only=given.read_only_hint,
        destructive=given.destructive_hint,
        idempotent=given.idempotent_hint,
        open_world=given.open_world_hint,
    )
