"""Decisions about tools at the speed of dictionary look-ups, from the bytes of a request to the bytes of a reply.

A batch costs what its objects cost. So requests are read into lazy messages, whose parts stay bytes: the facts of a
tool, or a server with all its tools, are a key to a result that is already encoded, and a reply joins such bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from callability.contract.vocabulary import Retry
from callability.kernel import limits
from callability.kernel.envelope import invalid
from callability.kernel.facts import FactReader, Readings
from callability.kernel.limits import PARTS_BYTES, InvalidName, InvalidRequest
from callability.kernel.path import remaining_path, retry_of
from callability.kernel.policy import LocalPolicy
from callability.kernel.results import (
    Counted,
    EncodedResult,
    EncodedServerResults,
    Gap,
    Observer,
    ToolMessages,
    WordsKey,
    gaps_of,
    join_results,
    undeclared_gaps,
)
from callability.kernel.rule_set import Verdict
from callability.process.bounded_cache import BoundedCache
from callability.v1 import callability_service_pb2 as pb
from callability.v1 import facts_pb2, outcome_pb2, verdict_pb2

_AS_BYTES = {
    "Agent": {"name"},
    "CheckToolRequest": {"server", "server_facts", "tool", "tool_facts"},
    "ServerTools": {"name", "facts"},
    "Tool": {"name", "facts"},
    "CheckToolsRequest": {"servers"},
    "CheckToolsResponse": {"servers", "words"},
}


def _lazy_pool() -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    for module in (facts_pb2, verdict_pb2, outcome_pb2, pb):
        file = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(file)
        if module is pb:
            # The older syntax distinguishes an empty value from an absent one, so that sizes differ by parts alone.
            file.ClearField("syntax")
        for message in file.message_type:
            for field in message.field:
                if field.name in _AS_BYTES.get(message.name, ()):
                    field.type = descriptor_pb2.FieldDescriptorProto.Type.ValueType(FieldDescriptor.TYPE_BYTES)
                    field.ClearField("type_name")
        pool.Add(file)
    return pool


_POOL = _lazy_pool()


def _lazy(message: type[Message]) -> Any:
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(message.DESCRIPTOR.full_name))


_REQUESTS: dict[type[Message], Any] = {
    message: _lazy(message) for message in (pb.CheckToolRequest, pb.CheckToolsRequest, pb.ServerTools)
}
CheckToolsResponse: Any = _lazy(pb.CheckToolsResponse)


def read(message: type[Message], data: bytes) -> Any:
    """Read a request into its lazy form.

    A message may stand on the wire in parts, which are to be merged, where bytes would keep the last part alone. The
    sizes then differ, and the request is first brought to its usual form, unless that would make too many objects. The
    servers of a `CheckToolsRequest` are never merged, and its agent is merged by the lazy form.

    Raises:
        InvalidRequest: the bytes are not such a message, or too many and in parts.
    """
    try:
        request = _REQUESTS[message].FromString(data)
        if message is not pb.CheckToolsRequest and request.ByteSize() != len(data):
            if len(data) > PARTS_BYTES:
                found = f"a message that is written in parts has {len(data):,} bytes, and may have {PARTS_BYTES:,}"
                raise InvalidRequest("ITEM_TOO_LARGE", found)
            request = _REQUESTS[message].FromString(message.FromString(data).SerializeToString())
    except DecodeError:
        raise InvalidRequest("REQUEST_MALFORMED", f"the request is not a `{message.DESCRIPTOR.name}`") from None
    return request


MAX_REQUESTS = 4_096
"""Requests about one tool that are kept with their result: a proxy asks again at each call of the tool."""
MAX_REQUEST_BYTES = 512
"""Bytes of a request that is kept."""
MAX_SERVER_RESULTS = 4_096
"""Servers with all their tools that are kept with their results: a proxy asks about the same tools again and again."""
MAX_SERVER_BYTES = 4_096
"""Bytes of a `ServerTools` that is kept."""
MAX_RESULTS_BYTES = 16_384
"""Bytes of results that are kept."""
MAX_SERVERS = 64
"""Facts of servers for which results are kept."""
MAX_UNDETERMINED = 4_096
"""Different undetermined results that are kept; they name the facts that are unread."""
MAX_POINTS = 4_096
"""Combinations of facts that are kept with what remains once a lock is lifted, or with whether a later try can help."""
MAX_TOOLS = 1_024
"""Facts of tools that are kept with their result, for one combination of server facts."""
MAX_KEY = 256
"""Bytes of facts that are a key themselves; of longer ones their hash is."""
AT_ONCE = 16
"""Tools that are decided, or servers whose results are kept, between two turns of others."""

Steps = Generator[None, None, bytes]
"""A long call: it yields now and then, so that others get a turn, and returns the bytes of its reply."""
_AgentKey = tuple[Any, ...]
_ToolKey = bytes | str | tuple[bytes | str, tuple[int, ...]]
"""The facts of a tool on the wire; if rules read its name, with its classes."""


class ByteCalls:
    """Answers `CheckTool` and `CheckTools` by one policy. Threads may share it.

    Unless it is `limited`, a request may be of any size, and hold any number of servers and tools.
    """

    def __init__(self, policy: LocalPolicy, messages: ToolMessages, observer: Observer, *, limited: bool) -> None:
        self.revision = policy.revision
        self.reader = FactReader(policy.callability)
        self._rules = policy.callability
        self._messages = messages
        self._observer = observer
        self._limited = limited
        self._stranger = self.reader.of_agent(None)
        self._results: dict[Verdict, EncodedResult] = {}
        self._undetermined: BoundedCache[tuple[Verdict, Retry, tuple[str, ...], frozenset[str]], EncodedResult]
        self._undetermined = BoundedCache(MAX_UNDETERMINED)
        self._retries: BoundedCache[tuple[tuple[int, ...], frozenset[str]], Retry] = BoundedCache(MAX_POINTS)
        self._of_server: BoundedCache[tuple[bytes | str, tuple[int, ...], _AgentKey], ServerOfTools]
        self._of_server = BoundedCache(MAX_SERVERS)
        self._remaining: BoundedCache[tuple[int, ...], bytes] = BoundedCache(MAX_POINTS)
        self._requests: BoundedCache[bytes, EncodedResult] = BoundedCache(MAX_REQUESTS, MAX_REQUEST_BYTES)
        self._servers: BoundedCache[tuple[bytes, _AgentKey], EncodedServerResults]
        self._servers = BoundedCache(MAX_SERVER_RESULTS, MAX_SERVER_BYTES)

    @property
    def kept_requests(self) -> int:
        """How many requests about one tool are kept with their result."""
        return len(self._requests)

    @property
    def kept_servers(self) -> int:
        """How many combinations of server facts have results that are kept."""
        return len(self._of_server)

    def check_tool(self, data: bytes) -> bytes:
        """Answer a `CheckToolRequest` with a `CheckToolResponse`.

        Raises:
            InvalidRequest: it is malformed, or a name in it is not one.
            BundleRefused: the bundle contradicts itself about a name, or lacks facts that a request can have.
        """
        result = self._requests.get(data) or self._decide_tool(data)
        if result.gaps:
            self._observer.count_gaps(Counter(result.gaps))
        self._observer.count_verdict(result.counted)
        return result.reply

    def check_tools(self, data: bytes) -> Steps:
        """Answer a `CheckToolsRequest` with a `CheckToolsResponse`.

        Raises:
            InvalidRequest: it is malformed, exceeds a limit, or the name of the agent in it is not one.
            BundleRefused: the bundle contradicts itself about a name, or lacks facts that a request can have.
        """
        if self._limited:
            yield from _check_size(data)
        request = read(pb.CheckToolsRequest, data)
        servers = request.servers
        self._check_sizes(0, len(servers))
        agent = self._agent_of(request)
        agent_key = agent.key
        reply = CheckToolsResponse(revision=self.revision)
        words: set[WordsKey] = set()
        gaps: Counter[Gap] = Counter(undeclared_gaps("agent", agent.undeclared))
        fresh: list[Sequence[EncodedResult]] = []
        again: list[EncodedServerResults] = []
        tools = 0
        for server in servers:
            results = self._servers.get((server, agent_key))
            if results is None:
                yield
                results = yield from self._decide_server(server, agent, agent_key, tools)
                fresh.append(results.results)
            else:
                again.append(results)
                if not len(again) % AT_ONCE:
                    yield
            tools += results.tools
            self._check_sizes(tools, len(servers))
            words |= results.words
            if results.gaps:
                gaps.update(results.gaps)
            reply.servers.append(results.encoded)
        yield
        self._observer.count_gaps(gaps)
        self._observer.decided_batch(fresh, again, tools)
        yield
        reply.words.extend(self._messages.encoded_words(words))
        encoded: bytes = reply.SerializeToString()
        return encoded

    def read(self, request: pb.ExplainToolRequest) -> Readings:
        """Return every fact in a request about a tool.

        Raises:
            InvalidRequest: a name is not one, or the facts exceed a limit.
            BundleRefused: the bundle contradicts itself about a name.
        """
        for name, what in ((request.server, "server"), (request.tool, "tool"), (request.agent.name, "agent")):
            limits.check_name(name.encode(), what, empty=what == "agent")
        limits.check_agent(request.agent.ByteSize())
        limits.check_facts(request.server_facts.SerializeToString(), request.tool_facts.SerializeToString())
        agent = request.agent if request.HasField("agent") else None
        return (
            self.reader.of_agent(agent, request.agent.name)
            | self.reader.of_server(request.server_facts, request.server)
            | self.reader.of_tool(request.tool_facts, request.tool)
        )

    def of_readings(self, readings: Readings) -> EncodedResult:
        """Return the result for all facts of a tool.

        Raises:
            BundleRefused: the bundle has no point for them. No reader of bundles knows which facts can occur together.
        """
        try:
            points = self._rules.points_of(readings.values)
        except KeyError:
            raise invalid("an axis has no point for facts that a request can have") from None
        verdict = self._rules.decide(points)
        if not verdict.undetermined:
            result = self._results.get(verdict)
            if result is None:
                result = self._results[verdict] = self._encode(verdict, verdict.status.retry)
            return result
        unread = self._rules.unread(verdict, points)
        retry = self._retry(verdict, points, readings)
        key = verdict, retry, unread, readings.not_understood
        result = self._undetermined.get(key)
        if result is None:
            result = self._encode(verdict, retry, unread, readings.not_understood)
            self._undetermined.keep(key, result)
        return result

    def error_result(self, error: InvalidRequest) -> EncodedResult:
        """Return an error as the result for a tool: it counts as undetermined."""
        item = verdict_pb2.ItemError(reason=error.reason, message=error.message)
        encoded = pb.ServerResults(results=[pb.ToolResult(error=item)]).SerializeToString()
        status = self._rules.question.undetermined
        number = self._messages.numbers[status]
        return EncodedResult(number, encoded, Counted("callability", status, ""), (number, ""), error)

    def _agent_of(self, request: Any) -> Readings:
        """Return what rules know of the agent in a lazy request.

        Raises:
            InvalidRequest: its name is not one, or its facts exceed a limit.
        """
        if not request.HasField("agent"):
            return self._stranger
        agent = request.agent
        limits.check_name(agent.name, "agent", empty=True)
        limits.check_agent(agent.ByteSize())
        return self.reader.of_agent(agent, agent.name.decode() if self.reader.reads_name("agent") else "")

    def server_of_tools(self, facts: bytes, name: bytes, agent: Readings, agent_key: _AgentKey) -> ServerOfTools:
        """Return the results for tools of a server with these facts and this valid name, for an agent."""
        text = name.decode() if self.reader.reads_name("server") else ""
        key = fact_key(facts), self.reader.class_of("server", text), agent_key
        found = self._of_server.get(key)
        if found is None:
            found = ServerOfTools(self, facts, text, agent)
            self._of_server.keep(key, found)
        return found

    def _decide_tool(self, data: bytes) -> EncodedResult:
        request = read(pb.CheckToolRequest, data)
        limits.check_name(request.server, "server")
        limits.check_name(request.tool, "tool")
        agent = self._agent_of(request)
        server = self.server_of_tools(request.server_facts, request.server, agent, agent.key)
        of_agent = undeclared_gaps("agent", agent.undeclared)
        result = server.alone(self, request.tool_facts, request.tool).with_gaps((*of_agent, *server.undeclared))
        result.check()
        self._requests.keep(data, result, len(data))
        return result

    def _decide_server(
        self, data: bytes, agent: Readings, agent_key: _AgentKey, before: int
    ) -> Generator[None, None, EncodedServerResults]:
        if self._limited:
            limits.check_tools(data, before)
        server = read(pb.ServerTools, data)
        tools = server.tools
        self._check_sizes(before + len(tools), 0)
        found: list[EncodedResult] = []
        ignored: tuple[Gap, ...] = ()
        try:
            limits.check_name(server.name, "server")
            results = self.server_of_tools(server.facts, server.name, agent, agent_key)
            ignored = results.undeclared
            for start in range(0, len(tools), AT_ONCE):
                yield
                found += results.of_tools(self, tools[start : start + AT_ONCE])
        except InvalidName as error:
            found = [self.error_result(error)] * len(tools)
        yield
        together = join_results(found, ignored)
        if len(together.encoded) <= MAX_RESULTS_BYTES:
            self._servers.keep((data, agent_key), together, len(data))
        return together

    def _encode(
        self,
        verdict: Verdict,
        retry: Retry,
        unread: tuple[str, ...] = (),
        not_understood: frozenset[str] = frozenset(),
    ) -> EncodedResult:
        message = self._messages.verdict(verdict, retry, unread)
        words = self._messages.words(verdict)
        reply = pb.CheckToolResponse(revision=self.revision, verdict=message, words=words)
        status = verdict.status
        return EncodedResult(
            status.number,
            pb.ServerResults(results=[pb.ToolResult(verdict=message)]).SerializeToString(),
            Counted("callability", status.name, "" if verdict.undetermined else verdict.rule),
            (status.number, verdict.words.rule) if verdict.words else None,
            reply=reply.SerializeToString(),
            gaps=gaps_of("callability", unread, not_understood),
            locked=not verdict.undetermined and status.name != self._rules.question.open_status,
        )

    def _retry(self, verdict: Verdict, points: tuple[int, ...], readings: Readings) -> Retry:
        """Return whether trying again can help with an undetermined verdict."""
        key = points, readings.stays_unknown
        found = self._retries.get(key)
        if found is None:
            found = retry_of(self._rules, verdict, readings.values, readings.stays_unknown)
            self._retries.keep(key, found)
        return found

    def with_remaining(self, result: EncodedResult, readings: Readings) -> EncodedResult:
        """Return the result of a locked tool with what remains once its lock is lifted, in the reply about it alone."""
        points = self._rules.points_of(readings.values)
        reply = self._remaining.get(points)
        if reply is None:
            path = remaining_path(self._rules, readings.values)
            rest = pb.CheckToolResponse(remaining=self._messages.path(path)).SerializeToString() if path else b""
            # Parts of a message that are encoded one after the other are one message.
            reply = result.reply + rest
            self._remaining.keep(points, reply)
        return replace(result, reply=reply)

    def _check_sizes(self, tools: int, servers: int) -> None:
        if self._limited:
            limits.check_sizes(tools, servers)


class ServerOfTools:
    """The results for tools of a server, decided when first needed. A refusal of its facts is a result too.

    The calls are given each time: if both referred to each other, a policy that was replaced would stay in memory
    until a collection.
    """

    def __init__(self, calls: ByteCalls, facts: bytes, name: str, agent: Readings) -> None:
        self._reader = calls.reader
        self._reads_name = calls.reader.reads_name("tool")
        self._kept: BoundedCache[_ToolKey, EncodedResult] = BoundedCache(MAX_TOOLS)
        self._alone: BoundedCache[_ToolKey, EncodedResult] = BoundedCache(MAX_TOOLS)
        self._refused: EncodedResult | None = None
        self.undeclared: tuple[Gap, ...] = ()
        """The facts of the server that the rule file does not declare."""
        try:
            # Read once, whatever the number of tools.
            server = self._reader.of_server(self._reader.parse(facts_pb2.ServerFacts, facts), name)
            self.undeclared = undeclared_gaps("server", server.undeclared)
            self._above = agent | server
        except InvalidRequest as error:
            self._refused = calls.error_result(error)

    @property
    def kept_tools(self) -> int:
        """How many facts of tools are kept with their result."""
        return len(self._kept)

    def of_tool(self, calls: ByteCalls, facts: bytes, name: bytes) -> EncodedResult:
        """Return the result for a tool with these facts and this valid name."""
        if not self._reads_name:
            return self._kept.get(facts) or self._decide(calls, facts, facts, "")
        text = name.decode()
        key = facts, self._reader.class_of("tool", text)
        return self._kept.get(key) or self._decide(calls, key, facts, text)

    def alone(self, calls: ByteCalls, facts: bytes, name: bytes) -> EncodedResult:
        """Return the result for a tool that is the only one of a request: it says which locks remain."""
        result = self.of_tool(calls, facts, name)
        if not result.locked:
            return result
        text = name.decode() if self._reads_name else ""
        key = fact_key(facts), self._reader.class_of("tool", text)
        found = self._alone.get(key)
        if found is None:
            tool = self._reader.of_tool(self._reader.parse(facts_pb2.ToolFacts, facts), text)
            found = calls.with_remaining(result, self._above | tool)
            self._alone.keep(key, found)
        return found

    def of_tools(self, calls: ByteCalls, tools: Sequence[Any]) -> list[EncodedResult]:
        """Return the results for lazy `Tool` messages; an invalid name is an error of its tool alone."""
        found = []
        by_facts = not self._reads_name
        kept = self._kept
        for tool in tools:
            name = tool.name
            if by_facts and 0 < len(name) <= limits.NAME_BYTES and name.isascii():
                facts = tool.facts
                found.append(kept.get(facts) or self._decide(calls, facts, facts, ""))
                continue
            try:
                limits.check_name(name, "tool")
                found.append(self.of_tool(calls, tool.facts, name))
            except InvalidName as error:
                found.append(calls.error_result(error))
        return found

    def _decide(self, calls: ByteCalls, key: _ToolKey, facts: bytes, name: str) -> EncodedResult:
        if self._refused is not None:
            return self._refused
        if len(facts) > MAX_KEY:
            key = (fact_key(facts), key[1]) if isinstance(key, tuple) else fact_key(facts)
            kept = self._kept.get(key)
            if kept is not None:
                return kept
        try:
            tool = self._reader.of_tool(self._reader.parse(facts_pb2.ToolFacts, facts), name)
            result = calls.of_readings(self._above | tool).with_gaps(undeclared_gaps("tool", tool.undeclared))
        except InvalidRequest as error:
            result = calls.error_result(error)
        self._kept.keep(key, result)
        return result


def fact_key(facts: bytes) -> bytes | str:
    """Return a key for facts. A hash is text, so that it never equals the facts of another tool."""
    return facts if len(facts) <= MAX_KEY else sha256(facts).hexdigest()


def _check_size(data: bytes) -> Iterator[None]:
    """Check how much a request holds before it is parsed."""
    large = limits.check_servers(data)
    yield
    for _ in limits.check_large_servers(data, large):
        yield
