"""Judgements by agent and revision, of which only what has changed is decided again.

A question about many tools is split into requests within the limits of the service; a tool that no request can hold is
an error of its own.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from threading import Lock

from callability.adapter import ALL_SERVERS, SEPARATOR, JudgedTool, Judgement, ToolText, judge
from callability.adapter.texts import well_formed
from callability.client.hooks import PolicyUnavailable
from callability.contract.vocabulary import MAX_BYTES, ToolStatus, byte_length
from callability.v1 import callability_service_pb2 as pb
from callability.v1 import facts_pb2
from callability.v1.callability_service_pb2 import CheckToolsRequest, ServerTools, Tool
from callability.v1.facts_pb2 import Agent, ToolFacts
from callability.v1.verdict_pb2 import ToolWords

MAX_TOOLS = 20_000
MAX_SERVERS_OF_A_BATCH = 2_000
MAX_BYTES_OF_A_BATCH = 3 * 1024 * 1024
"""Bytes of a request. A service takes 1 MiB more: nobody has to count to the byte."""
_AROUND = 16
"""Bytes around an item of a request, and some room."""


def batches(agent: Agent | None, servers: Iterable[ServerTools]) -> Iterator[CheckToolsRequest]:
    """Yield requests about the tools of some servers; those of one server may be spread over several requests."""
    request = CheckToolsRequest(agent=agent)
    empty = MAX_BYTES_OF_A_BATCH - request.ByteSize()
    room, space = MAX_TOOLS, empty
    for server in servers:
        start, end = 0, len(server.tools)
        above = ServerTools(name=server.name, facts=server.facts)
        own = above.ByteSize() + _AROUND
        all_of_it = server.ByteSize() - above.ByteSize() + end * _AROUND
        while start < end:
            tools: Sequence[Tool]
            if not start and end <= room and all_of_it <= space - own:
                tools, size = server.tools, all_of_it
            else:
                tools, size = _fitting(server.tools[start : start + room], space - own)
            if not tools and request.servers:
                room = 0
            else:
                # What fits in no request is sent by itself, for the service to refuse.
                part = tools or server.tools[start : start + 1]
                request.servers.append(
                    server if len(part) == end else ServerTools(name=above.name, facts=above.facts, tools=part)
                )
                start, room, space = start + len(part), room - len(part), space - own - size
            if not room or len(request.servers) == MAX_SERVERS_OF_A_BATCH:
                yield request
                request, room, space = CheckToolsRequest(agent=agent), MAX_TOOLS, empty
    if request.servers:
        yield request


def _fitting(tools: Sequence[Tool], space: int) -> tuple[Sequence[Tool], int]:
    """Return the first of some tools that have at most so many bytes together, and their bytes."""
    size = 0
    for number, tool in enumerate(tools):
        more = tool.ByteSize() + _AROUND
        if size + more > space:
            return tools[:number], size
        size += more
    return tools, size


FACTS_BYTES = 65_536
"""The most bytes that the facts of a tool may have in a request."""


class StandIns:
    """Names for the tools that no request can hold. A service answers each by an error of its item."""

    def __init__(self) -> None:
        self._tools: dict[str, str] = {}

    def describe(self, tool: str, facts: ToolFacts) -> Tool:
        """Return what a request holds about a tool: the tool, or a name that is too long if no request can hold it.

        None can if the name or the facts are too large, or if the name is not well-formed.
        """
        # Four bytes are the most that a character has.
        short = len(tool) <= MAX_BYTES // 4 or byte_length(tool) <= MAX_BYTES
        if short and well_formed(tool) == tool and facts.ByteSize() <= FACTS_BYTES:
            return Tool(name=tool, facts=facts)
        name = f"{len(self._tools):0{MAX_BYTES + 1}}"
        self._tools[name] = tool
        return Tool(name=name)

    @property
    def used(self) -> bool:
        """Whether a tool has one."""
        return bool(self._tools)

    def under_its_name(self, judged: JudgedTool) -> JudgedTool:
        """Return a judged tool under the name that it has."""
        return judged._replace(tool=self._tools[judged.tool]) if judged.tool in self._tools else judged


MAX_AGENTS = 64
"""Agents whose judgements are kept; those of the least recent one go first."""
MAX_REVISIONS = 2
"""Revisions whose judgements are kept for an agent: during a roll-out, replicas may answer by two."""
MAX_SERVERS_KEPT = 4_096
"""Servers that are kept beside those of the last judgement."""
MAX_ROUNDS = 6
"""How often the tools are asked about again if the revision changes meanwhile."""

WordsKey = tuple[ToolStatus, str]
"""A status, and a rule or nothing."""
Judging = Generator[pb.CheckToolsRequest, pb.CheckToolsResponse, Judgement]
"""Yields requests, takes the response to each, and returns a judgement."""


@dataclass(frozen=True, slots=True, eq=False)
class KnownServer:
    """A server and its tools with their facts, at one moment. Equal facts are the same object, as far as possible."""

    name: str
    facts: facts_pb2.ServerFacts
    tools: Mapping[str, facts_pb2.ToolFacts]
    refusals: Mapping[str, str]
    texts: Mapping[str, ToolText] = field(default_factory=dict)
    _about_all: list[pb.ServerTools] = field(default_factory=list, init=False, repr=False)
    """What a request holds about all tools, once it was made: after an edit of the policy it is needed again."""
    _without: dict[frozenset[str], KnownServer] = field(default_factory=dict, init=False, repr=False)
    """The server without some of its tools."""

    def without(self, names: Collection[str], separator: str) -> KnownServer:
        """Return the server without the tools that have some qualified names, for the same tools as the same object."""
        out = frozenset(tool for tool in self.tools if f"{self.name}{separator}{tool}" in names)
        if out and out not in self._without:
            tools = {tool: facts for tool, facts in self.tools.items() if tool not in out}
            refusals = {tool: why for tool, why in self.refusals.items() if tool not in out}
            texts = {tool: text for tool, text in self.texts.items() if tool not in out}
            self._without[out] = KnownServer(self.name, self.facts, tools, refusals, texts)
        return self._without.get(out, self)

    def question(self, tools: Collection[str] | None = None, stand_ins: StandIns | None = None) -> pb.ServerTools:
        """Return what a request holds about some of the tools, or about all. It is not to be changed."""
        about_all = tools is None or len(tools) == len(self.tools)
        if about_all and self._about_all:
            return self._about_all[0]
        describe = stand_ins.describe if stand_ins else _tool_of_request
        messages = [describe(tool, self.tools[tool]) for tool in (self.tools if tools is None else tools)]
        made = pb.ServerTools(name=self.name, facts=self.facts, tools=messages)
        if about_all and stand_ins and not stand_ins.used:
            self._about_all.append(made)
        return made


@dataclass(frozen=True, slots=True, eq=False)
class _JudgedServer:
    """The judged tools of a server as it was at one moment, by name, and the words that belong to them."""

    known: KnownServer
    tools: Mapping[str, JudgedTool]
    words: frozenset[WordsKey]


@dataclass(slots=True, eq=False)
class _OfRevision:
    """What is known of one revision: the judged servers, by name, and every word that was seen."""

    servers: dict[str, _JudgedServer] = field(default_factory=dict)
    words: dict[WordsKey, ToolWords] = field(default_factory=dict)
    latest: tuple[Sequence[_JudgedServer], Judgement] | None = None


class Judgements:
    """Judges servers for agents, and keeps what it judged. It may be used from several threads."""

    def __init__(self, separator: str = SEPARATOR) -> None:
        self._separator = separator
        self._lock = Lock()
        self._agents: OrderedDict[bytes | None, OrderedDict[str, _OfRevision]] = OrderedDict()

    def judging(self, agent: facts_pb2.Agent | None, servers: Sequence[KnownServer]) -> Judging:
        """Yield requests about what has changed, take the response to each, and return the judgement of all servers.

        Even if nothing has changed, one request is yielded: its response has the revision that decides now. Two tools
        with one qualified name are in no request: an agent could not say which of them it means.

        Raises:
            PolicyUnavailable: the responses are not to these requests, or the revision changes with each round.
        """
        key = None if agent is None else agent.SerializeToString(deterministic=True)
        duplicates = _duplicates(servers, self._separator)
        if duplicates:
            servers = [known.without(duplicates, self._separator) for known in servers]
        revision = self._latest(key)
        judged: dict[str, dict[str, _JudgedServer]] = {}
        for _ in range(MAX_ROUNDS):
            seen, stand_ins = set(), StandIns()
            by_now = judged.get(revision) or self._kept_servers(key, revision)
            missing = [known.question(tools, stand_ins) for known in servers if (tools := _missing(known, by_now))]
            for request in list(batches(agent, missing)) or [pb.CheckToolsRequest(agent=agent)]:
                response = yield request
                revision = response.revision
                seen.add(revision)
                by_now = judged.setdefault(revision, self._kept_servers(key, revision))
                self._learn(key, request, response, servers, by_now, stand_ins)
            if len(seen) == 1 and not any(_missing(known, by_now) for known in servers):
                return self._join(key, revision, [by_now[known.name] for known in servers], duplicates)
        raise PolicyUnavailable("the policy changes with each answer", "ABORTED")

    def _latest(self, key: bytes | None) -> str:
        with self._lock:
            return next(reversed(self._agents.get(key, {})), "")

    def _kept_servers(self, key: bytes | None, revision: str) -> dict[str, _JudgedServer]:
        with self._lock:
            return dict(self._of_revision(key, revision).servers) if revision else {}

    def _of_revision(self, key: bytes | None, revision: str) -> _OfRevision:
        """Return what is known of a revision, and forget what was used least recently; needs the lock."""
        revisions = self._agents.setdefault(key, OrderedDict())
        self._agents.move_to_end(key)
        while len(self._agents) > MAX_AGENTS:
            self._agents.popitem(last=False)
        found = revisions.setdefault(revision, _OfRevision())
        revisions.move_to_end(revision)
        while len(revisions) > MAX_REVISIONS:
            revisions.popitem(last=False)
        return found

    def _learn(
        self,
        key: bytes | None,
        request: pb.CheckToolsRequest,
        response: pb.CheckToolsResponse,
        servers: Sequence[KnownServer],
        by_now: dict[str, _JudgedServer],
        stand_ins: StandIns,
    ) -> None:
        """Add what a response says to what is judged by its revision."""
        try:
            judgement = judge(request, response, visible=ALL_SERVERS, separator=self._separator)
        except ValueError as error:
            raise PolicyUnavailable("the policy service gave an answer to another question", "INTERNAL") from error
        found: dict[str, dict[str, JudgedTool]] = {}
        for tool in map(stand_ins.under_its_name, judgement.tools):
            found.setdefault(tool.server, {})[tool.tool] = tool
        for known in servers:
            before = by_now.get(known.name)
            if before is None or before.known is not known or known.name in found:
                by_now[known.name] = _update_server(known, before, found.get(known.name, {}))
        with self._lock:
            self._of_revision(key, response.revision).words.update(judgement.words)

    def _join(
        self, key: bytes | None, revision: str, judged: Sequence[_JudgedServer], duplicates: frozenset[str]
    ) -> Judgement:
        """Return the judgement of judged servers; as long as they are the same, it is the same object."""
        with self._lock:
            kept = self._of_revision(key, revision)
            if kept.latest is None or [*kept.latest[0]] != [*judged]:
                kept.latest = judged, _join(judged, kept.words, self._separator, duplicates)
                kept.servers.update((each.known.name, each) for each in judged)
                if len(kept.servers) > MAX_SERVERS_KEPT:
                    kept.servers = {each.known.name: each for each in judged}
            return kept.latest[1]


def _tool_of_request(tool: str, facts: facts_pb2.ToolFacts) -> pb.Tool:
    return pb.Tool(name=well_formed(tool), facts=facts)


def _missing(known: KnownServer, by_now: Mapping[str, _JudgedServer]) -> list[str]:
    """Return the tools of a server that have not been judged by the facts that they have now."""
    kept = by_now.get(known.name)
    if kept is None:
        return list(known.tools)
    if kept.known is known and len(kept.tools) == len(known.tools):
        return []
    return [tool for tool in known.tools if not _same(known, kept, tool)]


def _same(known: KnownServer, kept: _JudgedServer, tool: str) -> bool:
    """Say whether a tool was judged by the facts that it has now."""
    if tool not in kept.tools or (known.facts is not kept.known.facts and known.facts != kept.known.facts):
        return False
    facts, before = known.tools[tool], kept.known.tools[tool]
    return facts is before or facts == before


def _update_server(known: KnownServer, before: _JudgedServer | None, judged: Mapping[str, JudgedTool]) -> _JudgedServer:
    """Return a server with what was judged now, and with what was judged before and holds still."""
    tools: dict[str, JudgedTool] = {}
    for tool in known.tools:
        if tool in judged:
            tools[tool] = judged[tool]
        elif before is not None and _same(known, before, tool):
            tools[tool] = before.tools[tool]
    decided = {(tool.status, tool.words_of) for tool in tools.values() if tool.status is not ToolStatus.CALLABLE}
    return _JudgedServer(known, tools, frozenset(decided | {(status, "") for status, _ in decided}))


def _duplicates(servers: Sequence[KnownServer], separator: str) -> frozenset[str]:
    """Return the qualified names that two tools have."""
    starts = sorted(f"{server.name}{separator}" for server in servers)
    if not any(after.startswith(before) for before, after in pairwise(starts)):
        return frozenset()
    names = Counter(f"{server.name}{separator}{tool}" for server in servers for tool in server.tools)
    return frozenset(name for name, count in names.items() if count > 1)


def _join(
    judged: Sequence[_JudgedServer], words: Mapping[WordsKey, ToolWords], separator: str, duplicates: frozenset[str]
) -> Judgement:
    tools = tuple(tool for server in judged for tool in server.tools.values())
    occurring = {key for server in judged for key in server.words}
    places = {status: place for place, status in enumerate(ToolStatus)}
    in_order = sorted(occurring & words.keys(), key=lambda key: (places[key[0]], key[1]))
    refusals = {
        f"{server.known.name}{separator}{tool}": why for server in judged for tool, why in server.known.refusals.items()
    }
    # What is shown by a judgement must be what was judged: an upstream may have sent another text meanwhile (A.3).
    texts = {
        f"{server.known.name}{separator}{tool}": text for server in judged for tool, text in server.known.texts.items()
    }
    return Judgement(tools, {key: words[key] for key in in_order}, refusals, texts, tuple(sorted(duplicates)))
