"""Deciding many tools by columns: the axes of the policy are asked for once, and again when the policy changes."""

from __future__ import annotations

from collections.abc import Generator

from callability.client.batches import batches
from callability.client.fact_columns import FactColumns, verdicts_of
from callability.client.failure import PolicyChanged, PolicyUnavailable
from callability.v1.callability_service_pb2 import CheckColumnsRequest, CheckColumnsResponse, CheckToolsRequest
from callability.v1.policy_service_pb2 import GetPolicyResponse
from callability.v1.verdict_pb2 import ToolVerdict

ATTEMPTS = 3
"""How often all tools are asked about, if the policy changes meanwhile."""
Query = CheckColumnsRequest | None
"""A request to make; None: ask for the policy."""
Answer = CheckColumnsResponse | GetPolicyResponse | PolicyChanged | None
"""The reply to it; None at the beginning."""
Checking = Generator[Query, Answer, list[ToolVerdict]]


class ColumnChecks:
    """Keeps the axes of the policy between calls. Threads may share it."""

    def __init__(self) -> None:
        self._columns: FactColumns | None = None

    def checking(self, request: CheckToolsRequest) -> Checking:
        """Yield what to ask, take the answers, and return the verdict of each tool.

        Raises:
            PolicyUnavailable: the policy changes with each attempt, or an answer is to another request.
        """
        parts = list(batches(request.agent if request.HasField("agent") else None, request.servers))
        for _ in range(ATTEMPTS):
            columns = self._columns
            if columns is None:
                policy = yield None
                assert isinstance(policy, GetPolicyResponse)
                columns = self._columns = FactColumns(policy)
            found = yield from _verdicts(columns, parts)
            if found is not None:
                return found
            self._columns = None
        raise PolicyUnavailable("the policy changed during each attempt", "FAILED_PRECONDITION")


def _verdicts(
    columns: FactColumns, parts: list[CheckToolsRequest]
) -> Generator[Query, Answer, list[ToolVerdict] | None]:
    """Return the verdict of each tool; None if the policy has changed."""
    found: list[ToolVerdict] = []
    for part in parts:
        query = columns.request(part)
        answer = yield query
        if isinstance(answer, PolicyChanged):
            return None
        assert isinstance(answer, CheckColumnsResponse)
        try:
            columns.learn(query, answer)
            verdicts = verdicts_of(answer)
        except (IndexError, ValueError) as error:
            raise PolicyUnavailable("the policy service gave an answer to another question", "INTERNAL") from error
        if len(verdicts) != query.tools:
            raise PolicyUnavailable("the policy service gave an answer to another question", "INTERNAL")
        found += verdicts
    return found
