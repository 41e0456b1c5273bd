"""The policy's classification of a finished attempt: why it failed, and whether its entry is kept."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from callability.adapter import enable_status, load_status
from callability.client import PolicyUnavailable
from callability.gateway.catalog.enable_outcome import EnableOutcome
from callability.gateway.loading.signals import signals_of
from callability.gateway.policy_client.most_careful import most_careful
from callability.gateway.policy_client.policy_client import PolicyClient
from callability.gateway.upstream import Failure
from callability.v1.callability_service_pb2 import (
    ClassifyEnableRequest,
    ClassifyLoadRequest,
    ClassifyLoadResponse,
)
from callability.v1.outcome_pb2 import ENABLE_ENTRY_KEPT
from callability.vocabulary import EnableEnd

_UNRULED = Failure("was not kept, since the policy gave no answer about it")


class EnableClassifier:
    """Has the policy classify attempts."""

    def __init__(self, policy: PolicyClient) -> None:
        self._policy = policy

    async def classify(self, outcome: EnableOutcome) -> tuple[EnableOutcome, bool]:
        """Return an outcome with the policy's classification of its failure, and whether the entry stays.

        If the policy gives no answer, or does not call it a connection, there is no connection and the entry does not
        stay.
        """
        if outcome.failure is not None:
            outcome = replace(outcome, load=await self._load(outcome.failure))
        connected = outcome.end is EnableEnd.CONNECTED
        try:
            # Whether the entry stays does not depend on which tools a single agent may call.
            request = ClassifyEnableRequest(facts=outcome.facts(callable_tools=True))
            response = await self._policy.classify_enable(request)
        except PolicyUnavailable:
            return replace(outcome, end=EnableEnd.FAILED, failure=_UNRULED) if connected else outcome, False
        kept = response.verdict.entry == ENABLE_ENTRY_KEPT
        if connected and not (kept and enable_status(response).connected):
            return replace(outcome, end=EnableEnd.FAILED, failure=_UNRULED), False
        return outcome, kept

    async def _load(self, failure: Failure) -> ClassifyLoadResponse | None:
        """Return the most careful classification of a failure and of those that came with it (L-1)."""
        requests = [
            ClassifyLoadRequest(signals=signals_of(each, tries_left=0, retry_scheduled=False)) for each in failure.each
        ]
        try:
            answers = await asyncio.gather(*map(self._policy.classify_load, requests))
        except PolicyUnavailable:
            return None
        return most_careful(answers, load_status)
