"""The policy's decisions about the tools that an agent may see."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import closing

from callability.adapter import Judgement, tool_counts
from callability.client.judgements import Judgements
from callability.gateway.config import AgentConfig
from callability.gateway.inventory.agent import agent_message
from callability.gateway.inventory.inventory import KnownServer
from callability.gateway.observability.unread_facts import UnreadFacts
from callability.gateway.policy_client.policy_client import PolicyClient
from callability.tool_name import MAX_BYTES, byte_length
from callability.v1 import callability_service_pb2 as pb
from callability.v1 import outcome_pb2, verdict_pb2
from callability.v1.callability_service_pb2 import FactChange
from callability.vocabulary import EDIT_LABELS


class Decisions:
    """The answers of the policy for one agent."""

    def __init__(
        self,
        policy: PolicyClient,
        *,
        agent: str = "",
        config: AgentConfig | None = None,
        unread: UnreadFacts | None = None,
        judgements: Judgements | None = None,
    ) -> None:
        self._policy = policy
        self._judgements = judgements or Judgements()
        self._reported: Judgement | None = None
        self._unread = unread or UnreadFacts()
        self._agent = agent_message(agent, config)

    async def check(self, known: KnownServer, tool: str) -> pb.CheckToolResponse:
        """Decide one tool; a tool that the service cannot be asked about is undetermined, as in a batch.

        A listed tool whose name no request can hold is one that the gateway refuses.

        Raises:
            PolicyUnavailable: there is no answer.
        """
        if byte_length(tool) > MAX_BYTES:
            status = verdict_pb2.TOOL_STATUS_DISABLED_UNKNOWN
            return pb.CheckToolResponse(verdict=verdict_pb2.ToolVerdict(status=status, withhold_text=True))
        request = pb.CheckToolRequest(
            agent=self._agent,
            server=known.facts.name,
            server_facts=known.facts.facts,
            tool=tool,
            tool_facts=known.tool_facts(tool),
        )
        response = await self._policy.check_tool(request)
        # Any name may be called of a server that is switched off; only known names are remembered.
        if tool in known.by_name and response.HasField("verdict"):
            self._unread.judged(self._agent.name, [(request.server, tool, tuple(response.verdict.unread))])
        return response

    async def labels_that_lift(self, known: KnownServer, tool: str) -> tuple[FactChange, ...]:
        """Return the changes of labels that lift the lock of a tool, by the rule that decides; nothing if none does.

        Raises:
            PolicyUnavailable: there is no answer.
        """
        request = pb.ExplainToolRequest(
            agent=self._agent,
            server=known.facts.name,
            server_facts=known.facts.facts,
            tool=tool,
            tool_facts=known.tool_facts(tool),
        )
        response = await self._policy.explain_tool(request)
        changes = response.path.steps[0].changes if response.path.steps else ()
        return tuple(change for change in changes if change.action == EDIT_LABELS.name)

    async def judge(self, servers: Collection[KnownServer]) -> Judgement:
        """Decide every known tool of some servers; what has not changed since is not decided again.

        Raises:
            PolicyUnavailable: there is no answer.
        """
        with closing(self._judgements.judging(self._agent, [known.facts for known in servers])) as steps:
            request = next(steps)
            while True:
                response = await self._policy.check_tools(request)
                try:
                    request = steps.send(response)
                except StopIteration as end:
                    judgement: Judgement = end.value
                    break
        if judgement is not self._reported:
            self._reported = judgement
            unread = ((each.server, each.tool, each.unread) for each in judgement.tools)
            self._unread.judged(self._agent.name, unread, {known.facts.name for known in servers})
        return judgement

    async def counts(self, servers: Collection[KnownServer]) -> dict[str, dict[str, int]]:
        """Return the counts of those of some servers that have a tool that is not callable (FR-010).

        Raises:
            PolicyUnavailable: there is no answer.
        """
        return tool_counts(await self.judge(servers))

    async def enable(self, facts: outcome_pb2.EnableFacts) -> pb.ClassifyEnableResponse:
        """Return the policy's classification of an enable.

        Raises:
            PolicyUnavailable: there is no answer.
        """
        return await self._policy.classify_enable(pb.ClassifyEnableRequest(facts=facts))
