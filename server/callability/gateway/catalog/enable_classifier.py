"""What the policy says of an attempt when it has come to its end: why it failed, and what becomes of the entry."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Protocol

import grpc

from callability.adapter import enable_status, load_status
from callability.gateway.catalog.enable_outcome import EnableOutcome
from callability.gateway.loading.signals import signals_of
from callability.gateway.tools.decisions import POLICY_SECONDS
from callability.gateway.upstream import Failure
from callability.v1.callability_service_pb2 import (
    ClassifyEnableRequest,
    ClassifyEnableResponse,
    ClassifyLoadRequest,
    ClassifyLoadResponse,
)
from callability.v1.outcome_pb2 import ENABLE_ENTRY_KEPT
from callability.vocabulary import EnableEnd, LoadStatus

_UNRULED = Failure("was not kept, since the policy gave no answer about it")
_CAREFUL = (LoadStatus.DENIED, LoadStatus.PERMANENT, LoadStatus.TRANSIENT, LoadStatus.AVAILABLE)
_logger = logging.getLogger(__name__)


class OutcomeStub(Protocol):
    """What is needed of a stub: the generated one on an aio channel, or a stand-in in the same process."""

    @property
    def ClassifyLoad(self) -> Callable[..., Awaitable[ClassifyLoadResponse]]:  # noqa: N802  # the contract's name
        """Classify one failure."""

    @property
    def ClassifyEnable(self) -> Callable[..., Awaitable[ClassifyEnableResponse]]:  # noqa: N802  # the contract's name
        """Classify one enable."""


class Ruling:
    """Asks the policy about attempts."""

    def __init__(self, stub: OutcomeStub) -> None:
        self._stub = stub

    async def on(self, outcome: EnableOutcome) -> tuple[EnableOutcome, bool]:
        """Return an outcome with what the policy says of its failure, and whether the entry stays.

        Where the policy gives no answer, or no connection by its rules, there is none, and nothing stays.
        """
        if outcome.failure is not None:
            outcome = replace(outcome, load=await self._load(outcome.failure))
        connected = outcome.end is EnableEnd.CONNECTED
        try:
            # What becomes of the entry does not depend on which tools a single agent may call.
            request = ClassifyEnableRequest(facts=outcome.facts(callable_tools=True))
            response = await self._stub.ClassifyEnable(request, timeout=POLICY_SECONDS)
        except (grpc.RpcError, grpc.aio.UsageError) as error:
            _logger.warning("the policy service gave no answer about an enable: %s", type(error).__name__)
            return replace(outcome, end=EnableEnd.FAILED, failure=_UNRULED) if connected else outcome, False
        kept = response.verdict.entry == ENABLE_ENTRY_KEPT
        if connected and not (kept and enable_status(response).connected):
            return replace(outcome, end=EnableEnd.FAILED, failure=_UNRULED), False
        return outcome, kept

    async def _load(self, failure: Failure) -> ClassifyLoadResponse | None:
        """Return the most careful of what the policy says of a failure and of those that came with it (L-1)."""
        requests = [
            ClassifyLoadRequest(signals=signals_of(each, tries_left=0, retry_scheduled=False)) for each in failure.each
        ]
        try:
            answers = await asyncio.gather(
                *(self._stub.ClassifyLoad(request, timeout=POLICY_SECONDS) for request in requests)
            )
        except (grpc.RpcError, grpc.aio.UsageError) as error:
            _logger.warning("the policy service gave no answer about a failure: %s", type(error).__name__)
            return None
        return min(answers, key=lambda answer: _CAREFUL.index(load_status(answer)))
