"""Loads the tools of one server, with a limited number of tries within one deadline (L-4)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from tenacity import AsyncRetrying, RetryCallState, retry_if_result, stop_after_attempt, stop_before_delay
from tenacity.wait import wait_exponential_jitter

from callability.adapter import load_status
from callability.client import PolicyUnavailable
from callability.gateway.loading.load_outcome import LoadOutcome
from callability.gateway.loading.signals import signals_of
from callability.gateway.policy_client.load_policy import LoadPolicy, LoadStub, load_policy
from callability.gateway.policy_client.most_careful import most_careful
from callability.gateway.upstream import Failure, Upstream, UpstreamError
from callability.v1.callability_service_pb2 import ClassifyLoadRequest, ClassifyLoadResponse
from callability.vocabulary import LoadFailure, LoadStatus

_BACKOFF = wait_exponential_jitter(multiplier=0.5, max=8, jitter=0.5)
"""About 0.5 s before the second try, 1 s before the third, and so on."""
_GIVEN_UP = Failure("was given up by the gateway")
_NO_ANSWER = "; not classified, since the policy service gave no answer"


@dataclass(frozen=True, slots=True)
class _Tried:
    """The outcome of one try."""

    status: LoadStatus
    failure: Failure | None = None
    answer: ClassifyLoadResponse = field(default_factory=ClassifyLoadResponse)


def _nobody(outcome: LoadOutcome) -> None:
    """Report to nobody."""


def _nothing() -> None:
    """Do nothing."""


class Loader:
    """Loads with at most `tries` tries within `seconds`, pauses included (L-4).

    An answer of the policy service may take up to 5 s more. `sleep` waits for a number of seconds between two tries.
    """

    def __init__(
        self,
        stub: LoadPolicy | LoadStub,
        *,
        tries: int = 3,
        seconds: float = 30.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._policy = load_policy(stub)
        self._tries = tries
        self._seconds = seconds
        self._sleep = sleep

    async def load(
        self,
        upstream: Upstream,
        *,
        retry_scheduled: bool = False,
        report: Callable[[LoadOutcome], None] = _nobody,
        begin: Callable[[], object] = _nothing,
    ) -> LoadOutcome:
        """Open an upstream, with retries if they may help. One that loaded stays open.

        The policy is asked only about a failure. If this is cancelled, the opening ends at once, and the upstream's own
        `close` waits for the cleanup. An opening for which a call waits continues for that call.

        Args:
            upstream: what is opened. One that is open stays as it is, and an opening in progress is awaited.
            retry_scheduled: whether the caller loads again later if this load ends as transient (L-7).
            report: receives the outcome so far after each try.
            begin: called before each try.
        """
        load = _Load(self._policy, upstream, self._tries, self._seconds, report, begin, retry_scheduled=retry_scheduled)
        trying = AsyncRetrying(
            sleep=self._sleep,
            stop=stop_after_attempt(self._tries) | stop_before_delay(self._seconds),
            wait=_pause,
            retry=retry_if_result(lambda tried: tried.status is LoadStatus.TRANSIENT),
            retry_error_callback=_last,
        )
        tried: _Tried = await trying(load.tried)
        return load.outcome(tried)


class _Load:
    """One load under way."""

    def __init__(
        self,
        policy: LoadPolicy,
        upstream: Upstream,
        tries: int,
        seconds: float,
        report: Callable[[LoadOutcome], None],
        begin: Callable[[], object],
        *,
        retry_scheduled: bool,
    ) -> None:
        self._attempts = 0
        self._policy = policy
        self._upstream = upstream
        self._tries = tries
        self._seconds = seconds
        self._report = report
        self._begin = begin
        self._deadline = asyncio.get_running_loop().time() + seconds
        self._retry_scheduled = retry_scheduled
        self._sessions_lost = 0

    def outcome(self, tried: _Tried) -> LoadOutcome:
        """Return the outcome of the load after a try."""
        return LoadOutcome(
            server_id=self._upstream.name,
            status=tried.status,
            tools=self._upstream.tools if tried.failure is None else (),
            error=_error(tried),
            attempts=self._attempts,
            answer=tried.answer,
        )

    async def tried(self) -> _Tried:
        """Try once; if several failures come together, the most careful classification counts (L-1)."""
        self._attempts += 1
        self._begin()
        tried = await self._tried()
        self._report(self.outcome(tried))
        return tried

    async def _tried(self) -> _Tried:
        failure = await self._failure()
        if failure is None:
            return _Tried(LoadStatus.AVAILABLE)
        self._sessions_lost += failure.in_session
        tried = await asyncio.gather(*map(self._classified, failure.each))
        return most_careful(tried, lambda each: each.status)

    async def _failure(self) -> Failure | None:
        self._upstream.start()
        try:
            async with asyncio.timeout_at(self._deadline):
                await self._upstream.opened()
        except UpstreamError as error:
            return error.failure
        except TimeoutError:
            words = f"did not load within {self._seconds:g} s"
            late = self._upstream.late(Failure(words, "TimeoutError", kind=LoadFailure.TIMEOUT))
            self._upstream.give_up(late)
            return late
        except asyncio.CancelledError:
            self._upstream.give_up(_GIVEN_UP)
            raise
        return None

    async def _classified(self, failure: Failure) -> _Tried:
        """Have the policy classify a failure; for a failure, `available` counts as no answer."""
        signals = signals_of(failure, tries_left=self._tries_left(failure), retry_scheduled=self._retry_scheduled)
        try:
            answer = await self._policy.classify_load(ClassifyLoadRequest(signals=signals))
        except PolicyUnavailable:
            return _Tried(LoadStatus.PERMANENT, failure)
        status = load_status(answer)
        if status is LoadStatus.AVAILABLE:
            return _Tried(LoadStatus.PERMANENT, failure)
        return _Tried(status, failure, answer)

    def _tries_left(self, failure: Failure) -> int:
        """Return how many tries may follow; a lost session is opened again only once."""
        again = failure.in_session and self._sessions_lost > 1
        return 0 if again else self._tries - self._attempts


def _last(state: RetryCallState) -> _Tried:
    assert state.outcome is not None
    tried: _Tried = state.outcome.result()
    return tried


def _pause(state: RetryCallState) -> float:
    """Return the pause before the next try: what the server requested, if that is longer than ours."""
    failure = _last(state).failure
    wanted = failure.retry_after if failure is not None else None
    return max(_BACKOFF(state), wanted or 0)


def _error(tried: _Tried) -> str | None:
    if tried.failure is None:
        return None
    return tried.failure.words if tried.answer.HasField("verdict") else f"{tried.failure.words}{_NO_ANSWER}"
