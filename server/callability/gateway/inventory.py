"""What the gateway knows: its servers, their tools, what it refuses by itself, and the facts to send about them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass

from mcp_types import Tool

from callability.adapter import ToolText
from callability.client.judgements import KnownServer as JudgedFacts
from callability.contract.enum_words import APPROVAL_STATUS
from callability.contract.vocabulary import MAX_BYTES, byte_length
from callability.gateway.catalog.attempt import Joined
from callability.gateway.config.approvals import ApprovalRecord, Approvals, Fingerprint
from callability.gateway.config.config import Config
from callability.gateway.config.model import AgentConfig, ServerConfig
from callability.gateway.tool_index import SearchDocument
from callability.gateway.upstream.listing import UpstreamTool
from callability.gateway.upstream.upstream import Upstream
from callability.v1 import facts_pb2
from callability.v1.facts_pb2 import Agent, DeclaredFacts, Labels

NO_TASKS = (
    "This tool can only be called as an MCP task, which the gateway does not support. Tell the user that this gateway"
    " cannot call it."
)
NO_NAME = (
    f"The name of this tool has {{size:,}} bytes, and only tools with names of 1 to {MAX_BYTES} bytes can be called."
    " Tell the user that this gateway cannot call it."
)


def refusal_of(tool: Tool) -> str:
    """Return why the gateway refuses a tool; empty if it does not."""
    if not 0 < (size := byte_length(tool.name)) <= MAX_BYTES:
        return NO_NAME.format(size=size)
    return NO_TASKS if tool.execution is not None and tool.execution.task_support == "required" else ""


def agent_message(name: str, config: AgentConfig | None) -> Agent:
    """Return an agent as the contract has it; one without an entry in the config has no labels and no facts."""
    if config is None:
        return Agent(name=name, labels=Labels())
    return Agent(name=name, labels=Labels(values=config.labels), declared_facts=declared_facts(config.facts))


def declared_facts(values: Mapping[str, str]) -> DeclaredFacts | None:
    """Return declared facts as the contract has them; without any, the message means what it means absent."""
    return DeclaredFacts(values=values) if values else None


@dataclass(frozen=True, slots=True)
class ListedTool:
    """A tool as its upstream listed it: what is shown, what is searched, and what rules may read.

    `refusal` says why the gateway itself refuses the tool; empty if it does not.
    """

    text: ToolText
    document: SearchDocument
    annotations: facts_pb2.Annotations
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class KnownServer:
    """What is known of a server and its tools at one moment; a judgement and what is shown by it share one.

    `by_name` has None for a tool without a known text, and `fingerprints` has the tools that the upstream lists.
    """

    config: ServerConfig
    records: Mapping[str, ApprovalRecord] | None
    """The approval records of the server's tools; None if the approvals cannot be read."""
    tools: tuple[UpstreamTool, ...]
    connected: bool
    by_name: Mapping[str, ListedTool | None]
    fingerprints: Mapping[str, Fingerprint]
    facts: JudgedFacts
    """The facts to judge the tools by."""

    def tool_facts(self, tool: str) -> facts_pb2.ToolFacts:
        """Return the facts of a tool, known or not."""
        return _tool_facts(self.config, self.records, tool, self.by_name.get(tool), self.fingerprints.get(tool))


_NONE: Mapping[str, Joined] = {}
_MAX_DEPTH = 5
"""How deep in a schema the descriptions of parameters are searched."""


class GatewayInventory:
    """The servers of a config, with their approvals and upstreams; disabled servers are never started.

    The servers of the catalog that have `joined` come on top. For a server that has not changed, what an `earlier`
    inventory knows is kept.
    """

    def __init__(
        self,
        config: Config,
        approvals: Approvals,
        upstreams: Mapping[str, Upstream],
        earlier: GatewayInventory | None = None,
        joined: Callable[[], Mapping[str, Joined]] = lambda: _NONE,
    ) -> None:
        self._approvals = approvals
        self._upstreams = upstreams
        self._joined = joined
        names = {*config.servers, *config.catalog}
        before: Mapping[str, KnownServer] = earlier._known if earlier else {}
        self._known: dict[str, KnownServer] = {name: it for name, it in before.items() if name in names}
        self._configured: Mapping[str, ServerConfig] = config.servers
        self._visible: Collection[str] | None = None
        self._servers: tuple[Mapping[str, Joined], Mapping[str, ServerConfig]] | None = None

    @property
    def servers(self) -> Mapping[str, ServerConfig]:
        """The servers in the order of the config, then those of the catalog in its order."""
        joined = self._joined()
        if self._servers is None or self._servers[0] is not joined:
            every = {**self._configured, **{name: each.config for name, each in joined.items()}}
            self._servers = joined, {name: server for name, server in every.items() if self.sees(name)}
        return self._servers[1]

    def limit_to(self, visible: Collection[str]) -> GatewayInventory:
        """Return the inventory of an agent that may see some servers: to it, no others exist (FR-007)."""
        scoped = copy(self)
        scoped._visible, scoped._servers = frozenset(visible), None
        return scoped

    def sees(self, server: str) -> bool:
        """Say whether the agent may see a server, if it is there."""
        return self._visible is None or server in self._visible

    def hides(self, server: str) -> bool:
        """Say whether a server is there that the agent may not see; only an operator may learn that."""
        return not self.sees(server) and (server in self._configured or server in self._joined())

    def is_joined(self, server: str) -> bool:
        """Say whether a server is one of the catalog, which only an enable connects (E-4)."""
        return server in self._joined()

    def upstream(self, server: str) -> Upstream | None:
        """Return the upstream of a server; None for one that is disabled."""
        return self._upstream(server) if self.servers[server].enabled else None

    def _upstream(self, server: str) -> Upstream:
        joined = self._joined().get(server)
        return self._upstreams[server] if joined is None else joined.upstream

    def known(self, server: str) -> KnownServer:
        """Return what is currently known of a server.

        For a connected server these are the tools that it lists; for any other, those that it listed earlier, those
        with an approval record, and those in its two lists (A.4).
        """
        upstream, config = self._upstream(server), self.servers[server]
        tools, connected = upstream.tools, upstream.state == "connected"
        records = self._approvals.records.get(server, {}) if self._approvals.readable else None
        known = self._known.get(server)
        if known is None or (known.tools, known.connected, known.config, known.records) != (
            tools,
            connected,
            config,
            records,
        ):
            known = self._known[server] = self._make_known(server, config, records, tools, connected=connected)
        return known

    def known_servers(self) -> dict[str, KnownServer]:
        """Return what is currently known of every server."""
        return {server: self.known(server) for server in self.servers}

    def _make_known(
        self,
        server: str,
        config: ServerConfig,
        records: Mapping[str, ApprovalRecord] | None,
        tools: tuple[UpstreamTool, ...],
        *,
        connected: bool,
    ) -> KnownServer:
        by_name = self._by_name(server, tools, connected=connected)
        # If a name is listed twice, the first one counts.
        fingerprints = {tool.name: tool.fingerprint for tool in reversed(tools)}
        tool_facts = {
            name: _tool_facts(config, records, name, listed, fingerprints.get(name)) for name, listed in by_name.items()
        }
        labels = facts_pb2.Labels(values=config.labels)
        facts = facts_pb2.ServerFacts(
            enabled=config.enabled,
            quarantined=config.quarantined,
            labels=labels,
            declared_facts=declared_facts(config.facts),
        )
        refusals = {name: it.refusal for name, it in by_name.items() if it and it.refusal}
        judged = JudgedFacts(server, facts, tool_facts, refusals)
        return KnownServer(config, records, tools, connected, by_name, fingerprints, judged)

    def _by_name(self, server: str, tools: Iterable[UpstreamTool], *, connected: bool) -> dict[str, ListedTool | None]:
        by_name: dict[str, ListedTool | None] = {}
        for tool in tools:
            by_name.setdefault(tool.name, _list_tool(server, tool.definition) if tool.definition else None)
        if not connected:
            for name in (*self._approvals.tools(server), *self.servers[server].listed_tools):
                by_name.setdefault(name, None)
        return by_name


class Texts(Mapping[str, ToolText]):
    """The texts of the tools by `server:tool`, as upstreams gave them, at the moment of a judgement."""

    def __init__(self, servers: Mapping[str, KnownServer]) -> None:
        self._servers = servers

    def __getitem__(self, name: str) -> ToolText:
        server, _, tool = name.partition(":")
        listed = self._servers[server].by_name.get(tool) if server in self._servers else None
        if listed is None:
            raise KeyError(name)
        return listed.text

    def __iter__(self) -> Iterator[str]:
        for server, known in self._servers.items():
            yield from (f"{server}:{tool}" for tool, listed in known.by_name.items() if listed)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _tool_facts(
    config: ServerConfig,
    records: Mapping[str, ApprovalRecord] | None,
    tool: str,
    listed: ListedTool | None,
    fingerprint: Fingerprint | None,
) -> facts_pb2.ToolFacts:
    return facts_pb2.ToolFacts(
        config_denied=config.config_denies(tool),
        approval=None if records is None else _approval(config, records.get(tool), fingerprint),
        caller_refuses=bool(listed and listed.refusal),
        annotations=listed.annotations if listed else None,
        labels=facts_pb2.Labels(values=config.tool_labels.get(tool, {})),
        declared_facts=declared_facts(config.facts_of_tool(tool)),
    )


def _approval(
    config: ServerConfig, record: ApprovalRecord | None, fingerprint: Fingerprint | None
) -> facts_pb2.Approval:
    """No record counts as approved only under `trust: auto` (A.2).

    Under `first_use`, a record comes before the tool is known, unless it could not be written; then the tool waits.
    """
    if record is None:
        if config.trust == "auto":
            return facts_pb2.Approval()
        record = ApprovalRecord(disabled=False, status="pending")
    status = record.status_of(fingerprint)
    if config.trust == "first_use" and record.is_open:
        status = "pending"
    # What is unknown of a record that was read has a value outside its domain, which only a person corrects.
    wire = facts_pb2.APPROVAL_STATUS_UNSPECIFIED if status is None else APPROVAL_STATUS.numbers[status]
    return facts_pb2.Approval(
        record=facts_pb2.ApprovalRecord(
            disabled=record.disabled, disabled_unspecified=record.disabled is None, status=wire
        )
    )


def _list_tool(server: str, tool: Tool) -> ListedTool:
    annotations = tool.annotations.model_dump(by_alias=True, exclude_none=True) if tool.annotations else None
    text = ToolText(tool.description, tool.input_schema, annotations)
    return ListedTool(text, search_document(server, tool), _annotations(tool), refusal_of(tool))


def search_document(server: str, tool: Tool) -> SearchDocument:
    """Return what is searched of a tool that a server lists."""
    properties = tool.input_schema.get("properties")
    parameters = tuple(map(str, properties)) if isinstance(properties, dict) else ()
    texts = tuple(_parameter_texts(properties, _MAX_DEPTH))
    return SearchDocument(tool.name, server, tool.title or "", tool.description or "", parameters, texts)


def _parameter_texts(properties: object, depth: int) -> Iterator[str]:
    """Yield the descriptions of parameters, and those of what is in them: members of objects, items of lists."""
    for schema in properties.values() if isinstance(properties, dict) and depth else ():
        if not isinstance(schema, dict):
            continue
        if isinstance(schema.get("description"), str):
            yield schema["description"]
        yield from _parameter_texts(schema.get("properties"), depth - 1)
        yield from _parameter_texts({"items": schema.get("items")}, depth - 1)


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
