"""The calls of `CallabilityService` by the policy in a bundle, from the bytes of a request to the bytes of a reply."""

from __future__ import annotations

import asyncio
from time import perf_counter

from callability import __version__
from callability.finding import MAX_FINDINGS
from callability.kernel import limits
from callability.kernel.calls import UNOBSERVED, EncodedCalls
from callability.kernel.checked_policy import CheckedPolicy
from callability.kernel.description import description
from callability.kernel.policy import read
from callability.service.observability.gaps import Gaps
from callability.service.observability.metrics import PolicyMetrics
from callability.v1 import policy_service_pb2

TURN = 0.0002
"""Seconds after which other callers get a turn."""


class CallabilityCalls:
    """Answers requests by one policy that was accepted; clients decide from the same bundle.

    Raises:
        BundleRefused: the bundle contradicts itself.
    """

    def __init__(self, checked: CheckedPolicy, metrics: PolicyMetrics | None = None) -> None:
        self.bundle = checked.bundle
        self.policy = read(checked.bundle)
        self.warnings = checked.findings
        self.engine = checked.engine
        observer = Gaps(self.policy.revision, metrics) if metrics is not None else UNOBSERVED
        self._calls = EncodedCalls(self.policy, observer, limited=True)
        self.policy_reply = self._description().SerializeToString()
        """What is reported of the policy, as a `GetPolicyResponse` encoded."""

    @property
    def revision(self) -> str:
        """The revision of the policy."""
        return self.policy.revision

    async def check_tool(self, data: bytes) -> bytes:
        """Answer a `CheckToolRequest` with a `CheckToolResponse`.

        Raises:
            InvalidRequest: it is malformed, or a name in it is not one.
        """
        return self._calls.check_tool(data)

    async def check_tools(self, data: bytes) -> bytes:
        """Answer a `CheckToolsRequest` with a `CheckToolsResponse`; other calls get a turn meanwhile.

        Raises:
            InvalidRequest: it is malformed, exceeds a limit, or the name of the agent in it is not one.
        """
        steps = self._calls.check_tools(data)
        started = perf_counter()
        while True:
            try:
                next(steps)
            except StopIteration as end:
                reply: bytes = end.value
                return reply
            if perf_counter() - started >= TURN:
                await asyncio.sleep(0)
                started = perf_counter()

    async def explain_tool(self, data: bytes) -> bytes:
        """Answer an `ExplainToolRequest` with an `ExplainToolResponse`.

        Raises:
            InvalidRequest: it is malformed, or a name in it is not one.
        """
        return self._calls.explain_tool(data)

    async def classify_load(self, data: bytes) -> bytes:
        """Answer a `ClassifyLoadRequest` with a `ClassifyLoadResponse`.

        Raises:
            InvalidRequest: it is malformed, or the text of the error in it is too long.
        """
        return self._calls.classify_load(data)

    async def classify_enable(self, data: bytes) -> bytes:
        """Answer a `ClassifyEnableRequest` with a `ClassifyEnableResponse`.

        Raises:
            InvalidRequest: it is malformed.
        """
        return self._calls.classify_enable(data)

    def _description(self) -> policy_service_pb2.GetPolicyResponse:
        """Return what `GetPolicy` reports about the policy, its bundle and the service."""
        reply = description(self.policy)
        reply.engine = self.engine
        reply.version = __version__
        reply.warnings.extend(str(warning) for warning in self.warnings[:MAX_FINDINGS])
        reply.limits.CopyFrom(
            policy_service_pb2.Limits(
                tools=limits.TOOLS,
                servers=limits.SERVERS,
                name_bytes=limits.NAME_BYTES,
                message_bytes=limits.MESSAGE_BYTES,
                labels=limits.LABELS,
                label_key_bytes=limits.LABEL_KEY_BYTES,
                label_value_bytes=limits.LABEL_VALUE_BYTES,
                declared_facts=limits.DECLARED_FACTS,
                declared_fact_name_bytes=limits.DECLARED_FACT_NAME_BYTES,
                declared_fact_value_bytes=limits.DECLARED_FACT_VALUE_BYTES,
                error_text_bytes=limits.ERROR_TEXT_BYTES,
                policy_files=limits.POLICY_FILES,
                policy_bytes=limits.POLICY_BYTES,
                policy_findings=limits.POLICY_FINDINGS,
                validations=limits.VALIDATIONS,
                validation_seconds=limits.VALIDATION_SECONDS,
            )
        )
        return reply
