"""The servers and tools of a proxy with their facts, which the proxy keeps current, and what becomes of a call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from threading import RLock
from types import MappingProxyType
from typing import Any

from callability.adapter import SEPARATOR, Scope, ToolText
from callability.adapter.judgement import in_scope
from callability.adapter.texts import well_formed
from callability.client.judgements import Judgements, Judging, KnownServer
from callability.contract.finding import as_code
from callability.contract.vocabulary import MAX_BYTES, byte_length
from callability.v1 import callability_service_pb2 as pb
from callability.v1 import facts_pb2, verdict_pb2

NO_RECORD = facts_pb2.Approval()
"""The approval of a tool that has no record. It must not be changed."""

HINTS = {
    "read_only": "readOnlyHint",
    "destructive": "destructiveHint",
    "idempotent": "idempotentHint",
    "open_world": "openWorldHint",
}


def tool_facts(
    tool: object,
    *,
    config_denied: bool | None,
    approval: facts_pb2.Approval | None,
    labels: Mapping[str, str] | None = None,
    declared: Mapping[str, str] | None = None,
    caller_refuses: bool = False,
) -> facts_pb2.ToolFacts:
    """Return complete facts of a tool: its annotations from the list, and what the proxy knows beside it.

    Args:
        tool: the tool as the server lists it: an object of an MCP library, or the JSON object.
        config_denied: whether the operator's configuration denies the tool; None if it could not be read.
        approval: what was read about its approval, `NO_RECORD` if there is no record, None if it could not be read.
        labels: the operator's labels of the tool.
        declared: the facts that the policy declares of tools, by name.
        caller_refuses: whether the proxy's own gate refuses the tool.

    Annotations that are not as MCP says are unknown, so that a rule that reads them holds this tool back, and no other.

    Raises:
        TypeError: a label or a declared fact is no text.
    """
    return facts_pb2.ToolFacts(
        config_denied=config_denied,
        approval=approval,
        annotations=_annotations(tool),
        labels=facts_pb2.Labels(values=_texts("label", labels or {})),
        declared_facts=facts_pb2.DeclaredFacts(values=_texts("declared fact", declared or {})),
        caller_refuses=caller_refuses,
    )


def _texts(what: str, values: Mapping[str, str]) -> Mapping[str, str]:
    """Return labels or declared facts, each of which is text: a config may hold `1` or `true` without quotes."""
    for name, value in values.items():
        if not isinstance(value, str):
            raise TypeError(f"the {what} {as_code(str(name))} must be text, and is {type(value).__name__}")
    return values


def tool_name(tool: object) -> str:
    """Return the name of a tool as the server lists it; empty if it has none, and then the tool is held back."""
    name = _field(tool, "name")
    return name if isinstance(name, str) else ""


def tool_text(tool: object) -> ToolText:
    """Return what a server says about a tool, for a discovery answer."""
    description, schema, annotations = (_field(tool, name) for name in ("description", "inputSchema", "annotations"))
    return ToolText(
        description if isinstance(description, str) else None,
        dict(schema) if isinstance(schema, Mapping) else None,
        _plain(annotations),
    )


def _annotations(tool: object) -> facts_pb2.Annotations | None:
    given = _field(tool, "annotations")
    if given is None:
        return facts_pb2.Annotations()
    if not _is_object(given):
        return None
    hints = {name: value for name, written in HINTS.items() if (value := _field(given, written)) is not None}
    return facts_pb2.Annotations(**hints) if all(isinstance(value, bool) for value in hints.values()) else None


def _field(holder: object, written: str) -> Any:
    """Return a field of a JSON object, or of an object of a library, that may have Python's spelling of its name."""
    if isinstance(holder, Mapping):
        return holder.get(written)
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in written)
    for name in (snake, written, "parameters" if written == "inputSchema" else written):
        # A name that is there counts, even if its value is None: other spellings may be deprecated.
        if hasattr(holder, name):
            return getattr(holder, name)
    return None


def _is_object(annotations: object) -> bool:
    return isinstance(annotations, Mapping) or hasattr(annotations, "model_dump")


def _plain(annotations: Any) -> dict[str, Any] | None:
    """Return annotations as a JSON object; None if there are none, or if they are no object."""
    if not _is_object(annotations):
        return None
    if isinstance(annotations, Mapping):
        return dict(annotations)
    dumped: dict[str, Any] = annotations.model_dump(mode="json", by_alias=True, exclude_none=True)
    return dumped


LIKELY_TOOL = facts_pb2.ToolFacts(
    config_denied=False,
    approval=facts_pb2.Approval(),
    annotations=facts_pb2.Annotations(read_only=True),
    labels=facts_pb2.Labels(),
)
"""The facts of a tool that only its server or the agent can lock. They must not be changed."""

HELD_BACK = pb.CheckToolResponse(verdict=verdict_pb2.ToolVerdict(retry=verdict_pb2.RETRY_NEVER, withhold_text=True))
"""The answer about a listed tool that no policy can judge. It must not be changed."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of a call: the agent reads `rejection`; if there is none, `tool` of `server` is called.

    `response` is the policy's answer about the tool; None if the name means no tool, or if there is no answer.
    """

    server: str
    tool: str
    response: pb.CheckToolResponse | None
    rejection: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class NamedTool:
    """A tool that a qualified name can mean: one that is listed, or one of a server whose list may not be there."""

    request: pb.CheckToolRequest
    refusal: str
    listed: bool
    has_others: bool
    """Whether the server has tools that are listed."""

    @property
    def fits_a_request(self) -> bool:
        """Whether a request can hold both names; otherwise there is no verdict, as in a judgement."""
        return all(0 < byte_length(name) <= MAX_BYTES for name in (self.request.server, self.request.tool))

    def is_answered_by(self, response: pb.CheckToolResponse) -> bool:
        """Return whether an answer is about this tool; if it is not listed, it is so only if its server is off.

        The list of a disabled server is not current, and that of one in quarantine may be missing.
        """
        status = response.verdict.status
        off = status == verdict_pb2.TOOL_STATUS_SERVER_DISABLED
        held = status == verdict_pb2.TOOL_STATUS_SERVER_QUARANTINED and not self.has_others
        return self.listed or off or held


def splits(name: str, separator: str) -> Iterator[tuple[str, str]]:
    """Yield every server and tool whose qualified name this is: the name of a server may hold the separator."""
    place = name.find(separator)
    while place >= 0:
        yield name[:place], name[place + len(separator) :]
        place = name.find(separator, place + 1)


class Inventory:
    """The servers and tools of a proxy with their facts, in the order in which they were first put.

    `Client.judge` decides them, and asks about those only that have changed since; its answers are those of a request
    about everything. Any number of threads and clients of one policy may share an inventory. Facts that were put must
    not be changed afterwards: put new ones.

    Args:
        separator: what stands between server and tool in a qualified name.
    """

    def __init__(self, *, separator: str = SEPARATOR) -> None:
        self.separator = separator
        self._lock = RLock()
        self._servers: dict[str, _Server] = {}
        self._judgements = Judgements(separator)

    @property
    def servers(self) -> tuple[str, ...]:
        """The names of the servers."""
        with self._lock:
            return tuple(self._servers)

    def tools(self, server: str) -> Mapping[str, facts_pb2.ToolFacts]:
        """Return the facts of the tools of a server, by name.

        Raises:
            KeyError: there is no such server.
        """
        with self._lock:
            return self._servers[server].known(server).tools

    def put_server(self, server: str, facts: facts_pb2.ServerFacts) -> None:
        """Put the facts of a server, new or not; its tools stay."""
        with self._lock:
            self._servers.setdefault(server, _Server()).put_facts(facts)

    def remove_server(self, server: str) -> None:
        """Remove a server with its tools, if it is there."""
        with self._lock:
            self._servers.pop(server, None)

    def put_tool(
        self,
        server: str,
        tool: str,
        facts: facts_pb2.ToolFacts,
        *,
        text: ToolText | None = None,
        refusal: str = "",
    ) -> None:
        """Put a tool, new or not.

        Args:
            server: the name of a server that was put.
            tool: the name of the tool.
            facts: its facts.
            text: what the server says about it, for the judgement's `texts`.
            refusal: why the proxy's own gate refuses it for good, in whole sentences. The facts then say
                `caller_refuses`.

        Raises:
            KeyError: there is no such server.
            ValueError: there is a refusal, and the facts do not say `caller_refuses`.
        """
        if refusal and not facts.caller_refuses:
            raise ValueError("a refusal goes with `caller_refuses` in the facts")
        with self._lock:
            self._servers[server].put_tool(tool, facts, text, refusal)

    def remove_tool(self, server: str, tool: str) -> None:
        """Remove a tool, if it is there."""
        with self._lock:
            if server in self._servers:
                self._servers[server].remove_tool(tool)

    def replace_tools(self, server: str, tools: Mapping[str, facts_pb2.ToolFacts]) -> None:
        """Put the tools of a server in place of those that it has; what has not changed is not decided again.

        Raises:
            KeyError: there is no such server.
        """
        with self._lock:
            self._servers[server].replace(tools, {})

    def replace_listed(
        self, server: str, tools: Iterable[object], facts_of: Callable[[object], facts_pb2.ToolFacts]
    ) -> None:
        """Put the tools that an MCP server lists in place of those that it has, with their texts.

        Args:
            server: the name of a server that was put.
            tools: the tools, as objects of an MCP library or as JSON objects. If a name is listed twice, the first
                counts.
            facts_of: returns the facts of a tool; `tool_facts` makes them.

        Raises:
            KeyError: there is no such server.
        """
        listed: dict[str, object] = {}
        for tool in tools:
            listed.setdefault(tool_name(tool), tool)
        facts = {name: facts_of(tool) for name, tool in listed.items()}
        texts = {name: tool_text(tool) for name, tool in listed.items()}
        with self._lock:
            self._servers[server].replace(facts, texts)

    @property
    def texts(self) -> Mapping[str, ToolText]:
        """The texts of the tools by qualified name: those of this moment.

        Give `adapter.discovery` those of the `Judgement` instead. What a server has said since has not been judged.
        """
        with self._lock:
            return _Texts({name: server.texts() for name, server in self._servers.items()}, self.separator)

    def request(self, agent: facts_pb2.Agent | None = None, *, visible: Scope) -> pb.CheckToolsRequest:
        """Return a request about every tool of the servers in `visible`, for `adapter.unread_inputs`."""
        return pb.CheckToolsRequest(agent=agent, servers=[known.question() for known in self._known_servers(visible)])

    def check_request(self, server: str, tool: str, agent: facts_pb2.Agent | None = None) -> pb.CheckToolRequest:
        """Return a request about one tool.

        Raises:
            KeyError: it is not there, or its name is not well-formed, so that no request can hold it.
        """
        with self._lock:
            known = self._servers[server].known(server) if server in self._servers else None
        if known is None or tool not in known.tools or well_formed(tool) != tool:
            raise KeyError(f"{server}{self.separator}{tool}")
        return pb.CheckToolRequest(
            agent=agent, server=server, server_facts=known.facts, tool=tool, tool_facts=known.tools[tool]
        )

    def named(self, name: str, agent: facts_pb2.Agent | None = None, *, visible: Scope) -> tuple[NamedTool, ...]:
        """Return the tools that a qualified name can mean: those that are listed, or else those that may exist.

        Raises:
            TypeError: `visible` is neither several names nor `ALL_SERVERS`.
        """
        in_scope("", visible)
        found = []
        for server, tool in splits(well_formed(name), self.separator):
            with self._lock:
                known = self._servers[server].known(server) if server in self._servers else None
            if known is None or not in_scope(server, visible):
                continue
            facts = known.tools.get(tool)
            request = pb.CheckToolRequest(
                agent=agent, server=server, server_facts=known.facts, tool=tool, tool_facts=facts or LIKELY_TOOL
            )
            refusal = known.refusals.get(tool, "")
            found.append(NamedTool(request, refusal, listed=facts is not None, has_others=bool(known.tools)))
        return tuple(each for each in found if each.listed) or tuple(found)

    def refusal(self, server: str, tool: str) -> str:
        """Return why the proxy's own gate refuses a tool, for `adapter.rejection`; empty if it does not."""
        with self._lock:
            return self._servers[server].refusals.get(tool, "") if server in self._servers else ""

    def judging(self, agent: facts_pb2.Agent | None = None, *, visible: Scope) -> Judging:
        """Yield the requests that a judgement needs, take the response to each, and return the judgement.

        `Client.judge` does so; use this with another client of the contract. A server that is not in `visible` is in no
        request (FR-007).

        Raises:
            PolicyUnavailable: the responses are not to these requests, or the policy changes with each of them.
            TypeError: `visible` is neither several names nor `ALL_SERVERS`.
        """
        return self._judgements.judging(agent, self._known_servers(visible))

    def _known_servers(self, visible: Scope) -> list[KnownServer]:
        in_scope("", visible)
        with self._lock:
            names = [name for name in self._servers if in_scope(name, visible)]
            return [self._servers[name].known(name) for name in names]


class _Server:
    """A server that changes; what it was at a moment is a `KnownServer`."""

    def __init__(self) -> None:
        self.facts = facts_pb2.ServerFacts()
        self.refusals: dict[str, str] = {}
        self._tools: dict[str, facts_pb2.ToolFacts] = {}
        self._texts: dict[str, ToolText] = {}
        self._known_servers: KnownServer | None = None
        self._texts_known: Mapping[str, ToolText] | None = None

    def known(self, name: str) -> KnownServer:
        if self._known_servers is None:
            tools, refusals = MappingProxyType(dict(self._tools)), MappingProxyType(dict(self.refusals))
            self._known_servers = KnownServer(name, self.facts, tools, refusals, self.texts())
        return self._known_servers

    def texts(self) -> Mapping[str, ToolText]:
        if self._texts_known is None:
            self._texts_known = MappingProxyType(dict(self._texts))
        return self._texts_known

    def put_facts(self, facts: facts_pb2.ServerFacts) -> None:
        if facts != self.facts:
            self.facts, self._known_servers = facts, None

    def put_tool(self, tool: str, facts: facts_pb2.ToolFacts, text: ToolText | None, refusal: str) -> None:
        if facts != self._tools.get(tool):
            self._tools[tool], self._known_servers = facts, None
        if refusal != self.refusals.get(tool, ""):
            self._known_servers = None
        self.refusals.pop(tool, None)
        if refusal:
            self.refusals[tool] = refusal
        if text != self._texts.get(tool):
            self._known_servers = self._texts_known = None
        self._texts.pop(tool, None)
        if text is not None:
            self._texts[tool] = text

    def remove_tool(self, tool: str) -> None:
        if self._tools.pop(tool, None) is not None:
            self._known_servers = self._texts_known = None
        self._texts.pop(tool, None)
        self.refusals.pop(tool, None)

    def replace(self, tools: Mapping[str, facts_pb2.ToolFacts], texts: Mapping[str, ToolText]) -> None:
        if self.refusals or list(tools.items()) != list(self._tools.items()):
            self._known_servers = None
        if texts != self._texts:
            self._known_servers = self._texts_known = None
        # What is equal stays the same object, so that a look is enough to see that it has not changed.
        earlier = self._tools
        self._tools = {name: earlier[name] if earlier.get(name) == facts else facts for name, facts in tools.items()}
        self._texts, self.refusals = dict(texts), {}


class _Texts(Mapping[str, ToolText]):
    """Texts by qualified name, found without making a name for each."""

    def __init__(self, servers: Mapping[str, Mapping[str, ToolText]], separator: str) -> None:
        self._servers = servers
        self._separator = separator

    def __getitem__(self, name: str) -> ToolText:
        # A server's name may hold the separator. A name of two tools, one of which may be hidden, has no text.
        pairs = splits(name, self._separator)
        found = [self._servers[server][tool] for server, tool in pairs if tool in self._servers.get(server, ())]
        if len(found) != 1:
            raise KeyError(name)
        return found[0]

    def __iter__(self) -> Iterator[str]:
        for server, tools in self._servers.items():
            yield from (f"{server}{self._separator}{tool}" for tool in tools)

    def __len__(self) -> int:
        return sum(map(len, self._servers.values()))
