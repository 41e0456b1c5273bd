"""What the gateway knows: its servers, their tools, and the facts that it sends about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mcp_types import Tool

from callability.adapter import ToolText
from callability.gateway.config import Config, ServerConfig
from callability.gateway.config.approvals import ApprovalRecord, Approvals
from callability.gateway.search import SearchDocument
from callability.gateway.upstream import Upstream
from callability.v1 import facts_pb2

_STATUS: Mapping[str, facts_pb2.ApprovalStatus.ValueType] = {
    "approved": facts_pb2.APPROVAL_STATUS_APPROVED,
    "pending": facts_pb2.APPROVAL_STATUS_PENDING,
    "changed": facts_pb2.APPROVAL_STATUS_CHANGED,
}


@dataclass(frozen=True, slots=True)
class ListedTool:
    """A tool as its upstream listed it: what is shown of it, and what is searched."""

    text: ToolText
    document: SearchDocument


@dataclass(frozen=True, slots=True)
class _Listing:
    tools: tuple[Tool, ...]
    by_name: Mapping[str, ListedTool]


class Inventory:
    """The servers of a config, with their approvals and upstreams; a disabled server has no upstream."""

    def __init__(self, config: Config, approvals: Approvals, upstreams: Mapping[str, Upstream]) -> None:
        self._config = config
        self._approvals = approvals
        self._upstreams = upstreams
        self._listings: dict[str, _Listing] = {}

    @property
    def servers(self) -> Mapping[str, ServerConfig]:
        """The servers, in the order of the config."""
        return self._config.servers

    def upstream(self, server: str) -> Upstream | None:
        """Return the connection to a server; None for one that is disabled."""
        return self._upstreams.get(server)

    def tools(self, server: str) -> tuple[str, ...]:
        """Return the known tools of a server (A.4).

        Of a connected server those that it lists; of any other those that it listed earlier, those with an approval
        record, and those in its two lists.
        """
        listed = tuple(self._listing(server).by_name)
        upstream = self._upstreams.get(server)
        if upstream is not None and upstream.state == "connected":
            return listed
        others = (*self._approvals.tools(server), *self._config.servers[server].listed_tools)
        return tuple(dict.fromkeys((*listed, *others)))

    def listed(self, server: str, tool: str) -> ListedTool | None:
        """Return a tool as its upstream listed it, or None where no text of it is known."""
        return self._listing(server).by_name.get(tool)

    def server_facts(self, server: str) -> facts_pb2.ServerFacts:
        """Return the facts of a server."""
        config = self._config.servers[server]
        labels = facts_pb2.Labels(values=config.labels)
        return facts_pb2.ServerFacts(enabled=config.enabled, quarantined=config.quarantined, labels=labels)

    def tool_facts(self, server: str, tool: str) -> facts_pb2.ToolFacts:
        """Return the facts of a tool."""
        config = self._config.servers[server]
        facts = facts_pb2.ToolFacts(
            config_denied=config.config_denies(tool),
            approval=self._approval(config, server, tool),
            labels=facts_pb2.Labels(values=config.tool_labels.get(tool, {})),
        )
        listed = self.listed(server, tool)
        if listed:
            facts.annotations.CopyFrom(_annotations(listed.text.annotations or {}))
        return facts

    def _approval(self, config: ServerConfig, server: str, tool: str) -> facts_pb2.Approval | None:
        """No record counts as pending under `trust: manual` (A.2); None where nothing can be read."""
        if not self._approvals.readable:
            return None
        record = self._approvals.record(server, tool)
        if record is None:
            if config.trust == "auto":
                return facts_pb2.Approval()
            record = ApprovalRecord(disabled=False, status="pending")
        status = None if record.status is None else _STATUS[record.status]
        return facts_pb2.Approval(record=facts_pb2.ApprovalRecord(disabled=record.disabled, status=status))

    def _listing(self, server: str) -> _Listing:
        upstream = self._upstreams.get(server)
        tools = upstream.tools if upstream else ()
        listing = self._listings.get(server)
        if listing is None or listing.tools is not tools:
            listing = _Listing(tools, _by_name(server, tools))
            self._listings[server] = listing
        return listing


def _by_name(server: str, tools: Iterable[Tool]) -> dict[str, ListedTool]:
    found: dict[str, ListedTool] = {}
    for tool in tools:
        found.setdefault(tool.name, _listed(server, tool))
    return found


def _listed(server: str, tool: Tool) -> ListedTool:
    annotations = tool.annotations.model_dump(by_alias=True, exclude_none=True) if tool.annotations else None
    properties = tool.input_schema.get("properties")
    parameters = tuple(map(str, properties)) if isinstance(properties, dict) else ()
    document = SearchDocument(tool.name, server, tool.title or "", tool.description or "", parameters)
    return ListedTool(ToolText(tool.description, tool.input_schema, annotations), document)


def _annotations(given: Mapping[str, object]) -> facts_pb2.Annotations:
    hints = {
        "read_only": "readOnlyHint",
        "destructive": "destructiveHint",
        "idempotent": "idempotentHint",
        "open_world": "openWorldHint",
    }
    known = {field: given[hint] for field, hint in hints.items() if isinstance(given.get(hint), bool)}
    return facts_pb2.Annotations(**known)  # type: ignore[arg-type]  # every value is a truth value
