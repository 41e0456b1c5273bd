"""The calls about tools, from the bytes of a request to the bytes of a reply."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from callability.bounded_cache import BoundedCache
from callability.service.fast_path import lazy_messages
from callability.service.fast_path.encoded_results import (
    EncodedResult,
    EncodedServerResults,
    WordsKey,
    encoded_error,
    gaps_among,
    joined,
)
from callability.service.fast_path.policy_results import PolicyResults
from callability.service.fast_path.turn import AT_ONCE, KEPT_AT_ONCE, Turn
from callability.service.observability.gaps import Gap, Gaps
from callability.service.requests import limits, request_size
from callability.service.requests.errors import InvalidName
from callability.service.translation.tool_facts import AgentValues, FactValues, Names
from callability.v1 import callability_service_pb2 as pb

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


class ToolCalls:
    """Answers `CheckTool` and `CheckTools` by the results of one policy, and counts the gaps of what it decides."""

    def __init__(self, results: PolicyResults, gaps: Gaps) -> None:
        self._results = results
        self._gaps = gaps
        self._requests: BoundedCache[bytes, EncodedResult] = BoundedCache(MAX_REQUESTS, MAX_REQUEST_BYTES)
        self._servers: BoundedCache[tuple[bytes, AgentValues], EncodedServerResults]
        self._servers = BoundedCache(MAX_SERVER_RESULTS, MAX_SERVER_BYTES)

    @property
    def kept_requests(self) -> int:
        """How many requests about one tool are kept with their result."""
        return len(self._requests)

    async def check_tool(self, data: bytes) -> bytes:
        """Answer a `CheckToolRequest` with a `CheckToolResponse`.

        Raises:
            InvalidRequest: it is malformed, or a name in it is not one.
        """
        result = self._requests.get(data) or self._decide_tool(data)
        if result.gaps:
            self._gaps.met(gaps_among([result]))
        self._gaps.decided(result.counted)
        return result.reply

    async def check_tools(self, data: bytes) -> bytes:
        """Answer a `CheckToolsRequest` with a `CheckToolsResponse`.

        Raises:
            InvalidRequest: it is malformed, exceeds a limit, or the name of the agent in it is not one.
        """
        turn = Turn()
        large = request_size.check_servers(data)
        await turn.others()
        for _ in request_size.check_large_servers(data, large):
            await turn.others()
        request = lazy_messages.read(pb.CheckToolsRequest, data)
        servers = request.servers
        limits.check_sizes(0, len(servers))
        agent, ignored = self._results.agent_of(request)
        reply = lazy_messages.CheckToolsResponse(revision=self._results.revision)
        words: set[WordsKey] = set()
        gaps: dict[Gap, int] = {**Counter(ignored)}
        fresh: list[Sequence[EncodedResult]] = []
        again: list[EncodedServerResults] = []
        tools = 0
        for server in servers:
            results = self._servers.get((server, agent))
            if results is None:
                await turn.others()
                results = await self._decide_server(server, agent, tools, turn)
                fresh.append(results.results)
            else:
                again.append(results)
                if not len(again) % KEPT_AT_ONCE:
                    await turn.others()
            tools += results.tools
            limits.check_sizes(tools, len(servers))
            words |= results.words
            for gap, times in results.gaps.items():
                gaps[gap] = gaps.get(gap, 0) + times
            reply.servers.append(results.encoded)
        await turn.others()
        self._gaps.met(gaps)
        self._gaps.decided_batch(fresh, again, tools)
        await turn.others()
        reply.words.extend(self._results.encoded_words(words))
        encoded: bytes = reply.SerializeToString()
        return encoded

    def facts(self, request: pb.ExplainToolRequest) -> FactValues:
        """Return every fact in a request about a tool.

        Raises:
            InvalidRequest: the facts are malformed, or exceed a limit.
        """
        reader = self._results.reader
        return reader.read(
            request.server_facts.SerializeToString(),
            request.tool_facts.SerializeToString(),
            Names(request.server, request.tool),
            reader.of_agent(request.agent if request.HasField("agent") else None, request.agent.name)[0],
        )

    def response(self, facts: FactValues) -> pb.CheckToolResponse:
        """Return the response to a `CheckToolRequest` with these facts."""
        return self._results.response(self._results.of_facts(facts))

    def _decide_tool(self, data: bytes) -> EncodedResult:
        request = lazy_messages.read(pb.CheckToolRequest, data)
        limits.check_name(request.server, "server")
        limits.check_name(request.tool, "tool")
        agent, ignored = self._results.agent_of(request)
        results = self._results.of_server(request.server_facts, request.server, agent)
        result = results.of_tool(request.tool_facts, request.tool).with_gaps((*ignored, *results.undeclared))
        result.check()
        self._requests.keep(data, result, len(data))
        return result

    async def _decide_server(self, data: bytes, agent: AgentValues, before: int, turn: Turn) -> EncodedServerResults:
        request_size.check_tools(data, before)
        server = lazy_messages.read(pb.ServerTools, data)
        tools = server.tools
        limits.check_sizes(before + len(tools), 0)
        found: list[EncodedResult] = []
        ignored: tuple[Gap, ...] = ()
        try:
            limits.check_name(server.name, "server")
            results = self._results.of_server(server.facts, server.name, agent)
            ignored = results.undeclared
            for start in range(0, len(tools), AT_ONCE):
                await turn.others()
                found += results.of_tools(tools[start : start + AT_ONCE])
        except InvalidName as error:
            found = [encoded_error(error)] * len(tools)
        await turn.others()
        together = joined(found, ignored)
        if len(together.encoded) <= MAX_RESULTS_BYTES:
            self._servers.keep((data, agent), together, len(data))
        return together
