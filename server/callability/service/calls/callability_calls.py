"""The calls of the contract, from the bytes of a request to the bytes of a reply."""

from __future__ import annotations

import asyncio
from functools import lru_cache, partial
from time import perf_counter
from typing import Any

from callability.policy.loading import Policy
from callability.policy.reporting.explanation import explain
from callability.service.calls.outcome_replies import Outcomes
from callability.service.fast_path import lazy_messages
from callability.service.fast_path.tool_results import (
    Answer,
    Answers,
    AnswersOfServer,
    Results,
    WordsKey,
    error_answer,
    gaps_among,
)
from callability.service.observability.gaps import Gap, Gaps
from callability.service.observability.metrics import PolicyMetrics
from callability.service.requests import limits, request_size
from callability.service.requests.errors import InvalidName
from callability.service.translation.messages import (
    enable_reply,
    explanation_message,
    load_reply,
    policy_message,
    status_number,
)
from callability.service.translation.outcome_facts import enable_facts, load_facts
from callability.service.translation.tool_facts import Names
from callability.service.transport.edge import parsed
from callability.v1 import callability_service_pb2 as pb
from callability.v1 import verdict_pb2
from callability.vocabulary import ToolStatus

MAX_REPLIES = 4_096
"""Requests about one tool that are kept with their reply: a proxy asks again at each call of the tool."""
MAX_REQUEST_KEPT = 512
"""Bytes of a request that is kept at the most."""
AT_ONCE = 32
"""Tools that are decided between two looks at the clock."""
TURN = 0.001
"""Seconds after which other callers get a turn."""

_UNDETERMINED: WordsKey = (ToolStatus.DISABLED_UNKNOWN, "")
"""The words of whatever is undetermined."""


class Turn:
    """How long one call has kept the others waiting."""

    def __init__(self) -> None:
        self._began = perf_counter()

    async def others(self) -> None:
        """Let other calls go on, if this one has had its time."""
        if perf_counter() - self._began >= TURN:
            await asyncio.sleep(0)
            self._began = perf_counter()


class Calls:
    """Answers requests by one policy."""

    def __init__(self, policy: Policy, metrics: PolicyMetrics | None = None) -> None:
        self._policy = policy
        self._answers = Answers(policy)
        self._gaps = Gaps(policy.revision, metrics)
        self._loads = Outcomes(policy, "load_outcome", partial(load_reply, policy.revision), self._gaps)
        self._enables = Outcomes(policy, "enable_outcome", partial(enable_reply, policy.revision), self._gaps)
        self._replies: dict[bytes, bytes] = {}
        self._undetermined: dict[bytes, Answer] = {}
        self.policy_reply = policy_message(policy).SerializeToString()
        """What is told about the policy, as a `GetPolicyResponse` encoded."""

    @property
    def revision(self) -> str:
        """The revision of the policy."""
        return self._policy.revision

    @property
    def kept_replies(self) -> int:
        """How many requests about one tool are kept with their reply."""
        return len(self._replies) + len(self._undetermined)

    async def check_tool(self, data: bytes) -> bytes:
        """Answer a `CheckToolRequest` with a `CheckToolResponse`.

        Raises:
            InvalidRequest: it is malformed, or a name in it is not one.
        """
        return self._replies.get(data) or self._answer(data).reply

    def _answer(self, data: bytes) -> Answer:
        """Answer a request whose reply is not kept: it is new, or its answer has gaps, which are counted each time."""
        answer = self._undetermined.get(data)
        if answer is None:
            answer = self._decide_tool(lazy_messages.read(pb.CheckToolRequest, data))
            if len(data) <= MAX_REQUEST_KEPT:
                if self.kept_replies >= MAX_REPLIES:
                    self._replies.clear()
                    self._undetermined.clear()
                if answer.gaps:
                    self._undetermined[data] = answer
                else:
                    self._replies[data] = answer.reply
        if answer.gaps:
            self._gaps.met(gaps_among([answer]))
        return answer

    def _decide_tool(self, request: Any) -> Answer:
        limits.check_name(request.server, "server")
        limits.check_name(request.tool, "tool")
        agent = self._agent(request)
        answers = self._answers.of_server(request.server_facts, request.server, agent)
        answer = answers.of_tool(request.tool_facts, request.tool)
        if answer.verdict is None:
            answer = answers.decide(request.tool_facts)
        return answer

    def _agent(self, request: Any) -> str | None:
        """Return what rules know of the agent for whom is asked; None where that is unknown."""
        if not request.HasField("agent"):
            return None
        limits.check_name(request.agent.name, "agent", empty=True)
        return self._answers.known_as("agent.name", request.agent.name)

    async def check_tools(self, data: bytes) -> bytes:
        """Answer a `CheckToolsRequest` with a `CheckToolsResponse`.

        Raises:
            InvalidRequest: it is malformed, exceeds a limit, or the name of the agent in it is not one.
        """
        request_size.check_servers(data)
        request = lazy_messages.read(pb.CheckToolsRequest, data)
        servers = request.servers
        limits.check_sizes(0, len(servers))
        agent = self._agent(request)
        reply = lazy_messages.CheckToolsResponse(revision=self._answers.revision)
        words: set[WordsKey] = set()
        gaps: dict[Gap, int] = {}
        tools = 0
        turn = Turn()
        for server in servers:
            results = self._answers.results(server, agent)
            if results is None:
                await turn.others()
                results = await self._decide_server(server, agent, tools, turn)
            tools += results.tools
            limits.check_sizes(tools, len(servers))
            words |= results.words
            if results.gaps:
                for gap, times in results.gaps.items():
                    gaps[gap] = gaps.get(gap, 0) + times
            reply.servers.append(results.encoded)
        self._gaps.met(gaps)
        reply.words.extend(self._answers.encoded_words(words))
        encoded: bytes = reply.SerializeToString()
        return encoded

    async def _decide_server(self, data: bytes, agent: str | None, before: int, turn: Turn) -> Results:
        request_size.check_tools(data, before)
        server = lazy_messages.read(pb.ServerTools, data)
        tools = server.tools
        limits.check_sizes(before + len(tools), 0)
        found: list[Answer] = []
        try:
            limits.check_name(server.name, "server")
            answers = self._answers.of_server(server.facts, server.name, agent)
            for start in range(0, len(tools), AT_ONCE):
                await turn.others()
                found += _decided(answers, tools[start : start + AT_ONCE])
        except InvalidName as error:
            found = [error_answer(error)] * len(tools)
        words = frozenset(answer.words for answer in found if answer.words)
        gaps = gaps_among(found) if _UNDETERMINED in words else {}
        results = Results(len(found), b"".join([answer.result for answer in found]) + _counts(found), words, gaps)
        self._answers.keep(data, agent, results)
        return results

    async def explain_tool(self, data: bytes) -> bytes:
        """Answer an `ExplainToolRequest` with an `ExplainToolResponse`.

        Raises:
            InvalidRequest: it is malformed, or a name in it is not one.
        """
        request = parsed(pb.ExplainToolRequest, data)
        limits.check_name(request.server.encode(), "server")
        limits.check_name(request.tool.encode(), "tool")
        limits.check_name(request.agent.name.encode(), "agent", empty=True)
        server_facts, tool_facts = request.server_facts.SerializeToString(), request.tool_facts.SerializeToString()
        names = Names(request.server, request.tool, request.agent.name if request.HasField("agent") else None)
        facts = self._answers.facts(server_facts, tool_facts, names)
        answer = self._answers.decide(server_facts, tool_facts, names)
        proved = self._policy.rule_sets["callability"]
        read = {fact: facts[fact] for fact in proved.table.space.facts}
        reply = explanation_message(explain(proved.rule_set, facts), read)
        decided = self._answers.reply(answer)
        reply.revision = decided.revision
        reply.verdict.CopyFrom(decided.verdict)
        if decided.HasField("words"):
            reply.words.CopyFrom(decided.words)
        return reply.SerializeToString()

    async def classify_load(self, data: bytes) -> bytes:
        """Answer a `ClassifyLoadRequest` with a `ClassifyLoadResponse`.

        Raises:
            InvalidRequest: it is malformed, or the text of the error in it is too long.
        """
        request = parsed(pb.ClassifyLoadRequest, data)
        limits.check_error_text(request.error_text)
        return self._loads.reply(load_facts(request.signals, request.error_text))

    async def classify_enable(self, data: bytes) -> bytes:
        """Answer a `ClassifyEnableRequest` with a `ClassifyEnableResponse`.

        Raises:
            InvalidRequest: it is malformed.
        """
        return self._enables.reply(enable_facts(parsed(pb.ClassifyEnableRequest, data).facts))


def _decided(answers: AnswersOfServer, tools: Any) -> list[Answer]:
    """Decide tools; a name that is none is an error of its item alone."""
    found = []
    by_facts = not answers.reads_tools
    for tool in tools:
        name = tool.name
        if by_facts and 0 < len(name) <= limits.NAME_BYTES and name.isascii():
            found.append(answers[tool.facts])
            continue
        try:
            limits.check_name(name, "tool")
            found.append(answers.of_tool(tool.facts, name))
        except InvalidName as error:
            found.append(error_answer(error))
    return found


def _counts(found: list[Answer]) -> bytes:
    places = bytes([answer.place for answer in found])
    return b"".join([_count(place, places.count(place)) for place in sorted(set(places))])


@lru_cache(maxsize=4_096)
def _count(place: int, count: int) -> bytes:
    counted = verdict_pb2.StatusCount(status=status_number(tuple(ToolStatus)[place]), count=count)
    return pb.ServerResults(counts=[counted]).SerializeToString()
