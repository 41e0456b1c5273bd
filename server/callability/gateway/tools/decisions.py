"""Asking the policy service, in parts where a request would be too large."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Iterator
from typing import Protocol

import grpc

from callability.adapter import Judgement, judge, tool_counts
from callability.gateway.inventory.inventory import KnownServer
from callability.gateway.observability.unread_facts import Unread
from callability.v1 import callability_service_pb2 as pb
from callability.v1 import facts_pb2, outcome_pb2

POLICY_SECONDS = 5.0
"""How long an answer of the service is waited for."""
_MAX_TOOLS = 20_000
_MAX_SERVERS = 2_000
_logger = logging.getLogger(__name__)


class CallabilityStub(Protocol):
    """What the gateway needs of a stub: the generated one on an aio channel, or a stand-in in the same process."""

    @property
    def CheckTool(self) -> Callable[..., Awaitable[pb.CheckToolResponse]]:  # noqa: N802  # the contract's name
        """Decide one tool."""

    @property
    def CheckTools(self) -> Callable[..., Awaitable[pb.CheckToolsResponse]]:  # noqa: N802  # the contract's name
        """Decide many tools."""

    @property
    def ClassifyLoad(self) -> Callable[..., Awaitable[pb.ClassifyLoadResponse]]:  # noqa: N802  # the contract's name
        """Classify one failure to load."""

    @property
    def ClassifyEnable(self) -> Callable[..., Awaitable[pb.ClassifyEnableResponse]]:  # noqa: N802  # the contract's name
        """Classify one enable."""


class PolicyUnavailable(Exception):
    """The policy service gave no answer. It is no status, and nothing may be called (A.7)."""


class Decisions:
    """The service's answers to an agent."""

    def __init__(self, stub: CallabilityStub, *, agent: str = "", unread: Unread | None = None) -> None:
        self._stub = stub
        self._unread = unread or Unread()
        self._agent = facts_pb2.Agent(name=agent)

    async def check(self, known: KnownServer, tool: str) -> pb.CheckToolResponse:
        """Decide one tool; one that the service cannot be asked about is undetermined, as in a batch.

        Raises:
            PolicyUnavailable: there is no answer.
        """
        request = pb.CheckToolRequest(
            agent=self._agent,
            server=known.question.name,
            server_facts=known.question.facts,
            tool=tool,
            tool_facts=known.tool_facts(tool),
        )
        try:
            response = await self._stub.CheckTool(request, timeout=POLICY_SECONDS)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.INVALID_ARGUMENT:
                return pb.CheckToolResponse()
            raise _unavailable(error) from error
        # Any name may be called of a server that is switched off; only the names that are known are remembered.
        if tool in known.by_name:
            self._unread.judged(self._agent.name, [(request.server, tool, tuple(response.verdict.unread))])
        return response

    async def judge(self, servers: Collection[KnownServer]) -> Judgement:
        """Decide every known tool of some servers.

        Raises:
            PolicyUnavailable: there is no answer.
        """
        answers = await self._answers(servers)
        visible = [known.question.name for known in servers]
        try:
            judgements = [judge(request, response, visible=visible) for request, response in answers]
        except ValueError as error:
            _logger.exception("the answer of the policy service is not one to the question")
            raise PolicyUnavailable("the policy service gave an answer to another question") from error
        tools = tuple(tool for judgement in judgements for tool in judgement.tools)
        self._unread.judged(self._agent.name, ((each.server, each.tool, each.unread) for each in tools))
        words = {key: said for judgement in judgements for key, said in judgement.words.items()}
        return Judgement(tools, words, {name: why for known in servers for name, why in known.refusals.items()})

    async def counts(self, servers: Collection[KnownServer]) -> dict[str, dict[str, int]]:
        """Return the counts of those of some servers that have a tool that is not callable (FR-010).

        Raises:
            PolicyUnavailable: there is no answer.
        """
        return tool_counts(await self.judge(servers))

    async def enable(self, facts: outcome_pb2.EnableFacts) -> pb.ClassifyEnableResponse:
        """Say what came of an enable.

        Raises:
            PolicyUnavailable: there is no answer.
        """
        try:
            return await self._stub.ClassifyEnable(pb.ClassifyEnableRequest(facts=facts), timeout=POLICY_SECONDS)
        except grpc.aio.AioRpcError as error:
            raise _unavailable(error) from error

    async def _answers(
        self, servers: Collection[KnownServer]
    ) -> list[tuple[pb.CheckToolsRequest, pb.CheckToolsResponse]]:
        try:
            return [
                (request, await self._stub.CheckTools(request, timeout=POLICY_SECONDS))
                for request in self._requests(servers)
            ]
        except grpc.aio.AioRpcError as error:
            raise _unavailable(error) from error

    def _requests(self, servers: Collection[KnownServer]) -> Iterator[pb.CheckToolsRequest]:
        """Yield requests within the limits; the tools of a server may stand in several."""
        request, room = pb.CheckToolsRequest(agent=self._agent), _MAX_TOOLS
        for known in servers:
            question = known.question
            start, end = 0, len(question.tools)
            while start < end:
                part = min(room, end - start)
                whole = part == end
                tools = question.tools[start : start + part]
                request.servers.append(
                    question if whole else pb.ServerTools(name=question.name, facts=question.facts, tools=tools)
                )
                start, room = start + part, room - part
                if not room or len(request.servers) == _MAX_SERVERS:
                    yield request
                    request, room = pb.CheckToolsRequest(agent=self._agent), _MAX_TOOLS
        if request.servers:
            yield request


def _unavailable(error: grpc.aio.AioRpcError) -> PolicyUnavailable:
    _logger.error("the policy service gave no answer: %s, %s", error.code().name, error.details())
    return PolicyUnavailable(f"the policy service gave no answer ({error.code().name})")
