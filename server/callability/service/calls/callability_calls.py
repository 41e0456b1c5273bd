"""The calls of `CallabilityService`, from the bytes of a request to the bytes of a reply."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial

from callability.bundle.envelope import opened
from callability.policy.loading import Policy
from callability.reasoning.explanation import explain
from callability.request_facts.outcome import enable_facts, load_facts
from callability.service.calls.outcome_replies import OutcomeReplies
from callability.service.fast_path import PolicyResults, ToolCalls
from callability.service.observability.gaps import Gaps
from callability.service.observability.metrics import PolicyMetrics
from callability.service.requests import limits
from callability.service.requests.parsing import parsed
from callability.service.translation.messages import enable_reply, explanation_message, load_reply, policy_message
from callability.v1 import callability_service_pb2 as pb


class CallabilityCalls:
    """Answers requests by one policy. Clients decide from its `bundle`, which is empty if there are no such clients."""

    def __init__(self, policy: Policy, metrics: PolicyMetrics | None = None, bundle: bytes = b"") -> None:
        self._policy = policy
        gaps = Gaps(policy.revision, metrics)
        self._tools = ToolCalls(PolicyResults(policy), gaps)
        self._loads = OutcomeReplies(policy, "load_outcome", partial(load_reply, policy.revision), gaps)
        self._enables = OutcomeReplies(policy, "enable_outcome", partial(enable_reply, policy.revision), gaps)
        self.bundle = bundle
        self.bundle_digest = opened(bundle).digest if bundle else ""
        self.policy_reply = policy_message(policy, self.bundle_digest).SerializeToString()
        """What is reported of the policy, as a `GetPolicyResponse` encoded."""

    @property
    def revision(self) -> str:
        """The revision of the policy."""
        return self._policy.revision

    def check_tool(self, data: bytes) -> Awaitable[bytes]:
        """Answer a `CheckToolRequest` with a `CheckToolResponse`.

        Raises:
            InvalidRequest: it is malformed, or a name in it is not one.
        """
        return self._tools.check_tool(data)

    def check_tools(self, data: bytes) -> Awaitable[bytes]:
        """Answer a `CheckToolsRequest` with a `CheckToolsResponse`.

        Raises:
            InvalidRequest: it is malformed, exceeds a limit, or the name of the agent in it is not one.
        """
        return self._tools.check_tools(data)

    async def explain_tool(self, data: bytes) -> bytes:
        """Answer an `ExplainToolRequest` with an `ExplainToolResponse`.

        Raises:
            InvalidRequest: it is malformed, or a name in it is not one.
        """
        request = parsed(pb.ExplainToolRequest, data)
        limits.check_name(request.server.encode(), "server")
        limits.check_name(request.tool.encode(), "tool")
        limits.check_name(request.agent.name.encode(), "agent", empty=True)
        limits.check_agent(request.agent.ByteSize())
        facts = self._tools.facts(request)
        proved = self._policy.rule_sets["callability"]
        read = {fact: facts.values[fact] for fact in proved.diagram.space.facts}
        reply = explanation_message(
            explain(proved.rule_set, proved.diagram, facts.values), read, proved.rule_set.question
        )
        decided = self._tools.response(facts)
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
