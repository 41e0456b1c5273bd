"""Loads the tools of servers, and keeps them loaded: the policy classifies each failure and says what is retried (L-2).

A load has a limited number of tries within one deadline (L-4), and every server has an outcome (L-6).
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from time import perf_counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from callability.adapter import NEUTRAL, Phrases, load_messages, load_status
from callability.adapter.messages import MAX_NAMED
from callability.adapter.texts import abridge
from callability.client import PolicyUnavailable
from callability.contract.enum_words import LOAD_FAILURE, LOAD_PHASE
from callability.contract.timeout_signature import timed_out_on_the_way
from callability.contract.vocabulary import LoadFailure, LoadStatus
from callability.gateway.config.model import ServerConfig
from callability.gateway.policy_client import LoadPolicy, LoadStub, load_policy, most_careful
from callability.gateway.upstream.failure import Failure, UpstreamError
from callability.gateway.upstream.listing import UpstreamTool
from callability.gateway.upstream.target import Target, target_of
from callability.gateway.upstream.upstream import Upstream
from callability.records.recorder import Recorder
from callability.v1 import outcome_pb2 as pb
from callability.v1.callability_service_pb2 import ClassifyLoadRequest, ClassifyLoadResponse

__all__ = [
    "LOADING",
    "Load",
    "LoadOutcome",
    "LoadPolicy",
    "LoadResult",
    "LoadStub",
    "Loader",
    "Loads",
    "Supervisor",
    "get_tools_with_resilience",
    "in_words",
    "messages_of",
    "numbers_of",
    "signals_of",
]
if TYPE_CHECKING:
    from tenacity import RetryCallState

Triple = tuple[list[UpstreamTool], list[str], list[str]]
"""All tools, the names of the servers that failed, and the error of each, in the same order."""


@dataclass(frozen=True, slots=True)
class LoadOutcome:
    """The outcome of one load: `tools` if it is available, and otherwise `error`, which is safe to show (L-8).

    `attempts` is the number of tries. `answer` is the classification by the policy service; it is empty if there was
    no failure, or no answer.
    """

    server_id: str
    status: LoadStatus
    tools: tuple[UpstreamTool, ...]
    error: str | None
    attempts: int
    answer: ClassifyLoadResponse = field(repr=False)


@dataclass(frozen=True, slots=True)
class LoadResult:
    """The outcomes of all servers, by name."""

    outcomes: Mapping[str, LoadOutcome]

    @property
    def triple(self) -> Triple:
        """The outcomes as `(all_tools, failed_servers, failed_errors)`, for callers of the older shape (L-6)."""
        failed = {name: outcome.error for name, outcome in self.outcomes.items() if outcome.error is not None}
        tools = [tool for outcome in self.outcomes.values() for tool in outcome.tools]
        return tools, list(failed), list(failed.values())

    def messages(self, *, phrases: Phrases = NEUTRAL) -> dict[LoadStatus, str]:
        """Return, for each status but `available` that occurs, what an agent says to its user (L-7)."""
        return messages_of(self.outcomes, phrases=phrases)


def messages_of(outcomes: Mapping[str, LoadOutcome], *, phrases: Phrases) -> dict[LoadStatus, str]:
    """Return what an agent says to its user about the outcomes of some servers, by status (L-7)."""
    failed = {name: outcome for name, outcome in outcomes.items() if outcome.error is not None}
    answers = {name: outcome.answer for name, outcome in failed.items()}
    reasons = {name: abridge(outcome.error or "") for name, outcome in failed.items()}
    return load_messages(answers, reasons, phrases=phrases)


CLASSIFY_SECONDS = 2.0
"""How long an answer about a server that is not connected waits for the policy to say what can be done."""


class Load(Protocol):
    """The loads of one server, as its `Supervisor` reports them."""

    @property
    def outcome(self) -> LoadOutcome | None:
        """The latest outcome, or None if there is none yet."""

    @property
    def is_pending(self) -> bool:
        """Whether the first load is still without a result."""

    async def wait_until_known(self) -> None:
        """Wait until the first load has a first result."""

    async def wait_until_classified(self) -> None:
        """Wait until the try to load that is under way, if any, has a result."""


class Loads:
    """The loads of the enabled servers. Any other server has no outcome and is never pending."""

    def __init__(self, loads: Mapping[str, Load] = MappingProxyType({})) -> None:
        self._loads = loads

    def outcome(self, server: str) -> LoadOutcome | None:
        """Return the latest outcome of a server, or None if there is none yet."""
        return self._loads[server].outcome if server in self._loads else None

    def messages(self, servers: Iterable[str], phrases: Phrases) -> dict[LoadStatus, str]:
        """Return what an agent says to its user about those of some servers that did not load, by status (L-7)."""
        outcomes = {server: outcome for server in servers if (outcome := self.outcome(server))}
        return messages_of(outcomes, phrases=phrases)

    def still_loading(self, servers: Iterable[str]) -> str:
        """Return what an agent says about those of some servers whose tools are not known yet; empty if there are none.

        The first five by name are named, and the others are counted.
        """
        names = sorted(server for server in servers if server in self._loads and self._loads[server].outcome is None)
        if not names:
            return ""
        more = f", and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
        which = ", ".join(f"`{name}`" for name in names[:MAX_NAMED])
        return f"Still loading: {which}{more}. Their tools are not known yet. Try again in a moment."

    def is_pending(self, server: str) -> bool:
        """Return whether the first load of a server is still without a result."""
        return server in self._loads and self._loads[server].is_pending

    async def wait_until_known(self, server: str) -> None:
        """Wait until the first load of a server has a first result."""
        if server in self._loads:
            await self._loads[server].wait_until_known()

    async def wait_until_classified(self, server: str) -> None:
        """Wait until the try to load a server that is under way, if any, has a result."""
        if server in self._loads:
            await self._loads[server].wait_until_classified()

    async def classified_soon(self, server: str) -> None:
        """Wait for the same, but not for long: the policy may give no answer."""
        with suppress(TimeoutError):
            async with asyncio.timeout(CLASSIFY_SECONDS):
                await self.wait_until_classified(server)


def signals_of(failure: Failure, *, tries_left: int, retry_scheduled: bool) -> pb.LoadSignals:
    """Return the structured signals of one failure: no text, and of its body only the timeout signature (L-2, L-3)."""
    has_status = failure.kind is LoadFailure.HTTP_STATUS
    return pb.LoadSignals(
        phase=None if failure.phase is None else LOAD_PHASE.numbers[failure.phase],
        failure=LOAD_FAILURE.numbers[failure.kind],
        http_status=failure.status if has_status else None,
        timeout_signature=timed_out_on_the_way(failure.body),
        in_session=failure.in_session,
        tries_left=tries_left,
        retry_scheduled=retry_scheduled,
    )


_GIVEN_UP = Failure("was given up by the gateway")
_NO_ANSWER = "; not classified, since the policy service gave no answer"


@dataclass(frozen=True, slots=True)
class _Tried:
    """The outcome of one try."""

    status: LoadStatus
    failure: Failure | None = None
    answer: ClassifyLoadResponse = field(default_factory=ClassifyLoadResponse)
    request: ClassifyLoadRequest = field(default_factory=ClassifyLoadRequest)


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
        recorder: Recorder | None = None,
    ) -> None:
        self._policy = load_policy(stub)
        self._tries = tries
        self._seconds = seconds
        self._sleep = sleep
        self._recorder = recorder

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
        # A gateway answers before it loads anything.
        from tenacity import AsyncRetrying, retry_if_result, stop_after_attempt, stop_before_delay  # noqa: PLC0415

        load = _Load(self._policy, upstream, self._tries, self._seconds, report, begin, retry_scheduled=retry_scheduled)
        trying = AsyncRetrying(
            sleep=self._sleep,
            stop=stop_after_attempt(self._tries) | stop_before_delay(self._seconds),
            wait=_pause,
            retry=retry_if_result(lambda tried: tried.status is LoadStatus.TRANSIENT),
            retry_error_callback=_last,
        )
        started = perf_counter()
        tried: _Tried = await trying(load.try_once)
        if self._recorder is not None and tried.answer.HasField("verdict"):
            about = tried.request.SerializeToString(), tried.answer.SerializeToString(), perf_counter() - started
            self._recorder.decided_load(upstream.name, "", *about)
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

    async def try_once(self) -> _Tried:
        """Try once; if several failures come together, the most careful classification counts (L-1)."""
        self._attempts += 1
        self._begin()
        tried = await self._try_once()
        self._report(self.outcome(tried))
        return tried

    async def _try_once(self) -> _Tried:
        failure = await self._failure()
        if failure is None:
            return _Tried(LoadStatus.AVAILABLE)
        self._sessions_lost += failure.in_session
        tried = await asyncio.gather(*map(self._classify, failure.each))
        return most_careful(tried, lambda each: each.status)

    async def _failure(self) -> Failure | None:
        self._upstream.start()
        try:
            async with asyncio.timeout_at(self._deadline):
                await self._upstream.wait_until_open()
        except UpstreamError as error:
            return error.failure
        except TimeoutError:
            words = f"did not load within {self._seconds:g} s"
            late = self._upstream.late_failure(Failure(words, "TimeoutError", kind=LoadFailure.TIMEOUT))
            self._upstream.give_up(late)
            return late
        except asyncio.CancelledError:
            self._upstream.give_up(_GIVEN_UP)
            raise
        return None

    async def _classify(self, failure: Failure) -> _Tried:
        """Have the policy classify a failure; for a failure, `available` counts as no answer."""
        signals = signals_of(failure, tries_left=self._tries_left(failure), retry_scheduled=self._retry_scheduled)
        try:
            request = ClassifyLoadRequest(signals=signals)
            answer = await self._policy.classify_load(request)
        except PolicyUnavailable:
            return _Tried(LoadStatus.PERMANENT, failure)
        status = load_status(answer)
        if status is LoadStatus.AVAILABLE:
            return _Tried(LoadStatus.PERMANENT, failure)
        return _Tried(status, failure, answer, request)

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
    from tenacity.wait import wait_exponential_jitter  # noqa: PLC0415

    failure = _last(state).failure
    # About 0.5 s before the second try, 1 s before the third, and so on.
    backoff = wait_exponential_jitter(multiplier=0.5, max=8, jitter=0.5)
    wanted = failure.retry_after if failure is not None else None
    return max(backoff(state), wanted or 0)


def _error(tried: _Tried) -> str | None:
    if tried.failure is None:
        return None
    return tried.failure.words if tried.answer.HasField("verdict") else f"{tried.failure.words}{_NO_ANSWER}"


async def get_tools_with_resilience(
    servers: Mapping[str, ServerConfig | Target],
    stub: LoadPolicy | LoadStub,
    *,
    tries: int = 3,
    seconds: float = 30.0,
    open_seconds: float = 10.0,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> LoadResult:
    """Load servers concurrently, and return their outcomes. One that fails, hangs or crashes affects no other (L-5).

    Every connection is closed again, also if this is cancelled. A server that its config disables is not connected
    and has no outcome. Of a server in quarantine, only the names of the tools are kept.

    Args:
        servers: the servers by name, as a config has them, or as plain targets.
        stub: classifies each failure: a `callability.client.Client`, or the stub of `CallabilityService` on an aio
            channel.
        tries: the maximum number of tries for a server.
        seconds: the limit of a load in seconds, with all tries and the pauses between them.
        open_seconds: the limit of one try in seconds.
        sleep: what waits for a number of seconds between two tries.
    """
    loader = Loader(stub, tries=tries, seconds=seconds, sleep=sleep)
    async with asyncio.TaskGroup() as group:
        tasks = {
            name: group.create_task(_load_one(name, server, loader, open_seconds))
            for name, server in servers.items()
            if not isinstance(server, ServerConfig) or server.enabled
        }
    return LoadResult({name: task.result() for name, task in tasks.items()})


async def _load_one(name: str, server: ServerConfig | Target, loader: Loader, open_seconds: float) -> LoadOutcome:
    target, held = (target_of(server), server.quarantined) if isinstance(server, ServerConfig) else (server, False)
    upstream = Upstream(name, target, open_seconds=open_seconds, names_only=held)
    try:
        return await loader.load(upstream)
    finally:
        await upstream.close()


LOADING = "loading"
"""The word in place of a status for a server whose first load has no result yet."""


def numbers_of(loads: Iterable[Load]) -> Mapping[str, int]:
    """Return the number of loads by status. A server whose connection was lost has no status until it loads again."""
    return Counter(status for status in map(_status, loads) if status)


def in_words(numbers: Mapping[str, int]) -> str:
    """Return the numbers of servers by status as text, with the number of those still loading."""
    known = [f"{numbers[status]} {status}" for status in LoadStatus if numbers.get(status)]
    to_go = numbers.get(LOADING, 0)
    total = sum(numbers.values())
    beginning = f"{'loading' if to_go else 'loaded'} {total} server{'' if total == 1 else 's'}: "
    return beginning + ", ".join([*known, *([f"{to_go} to go"] if to_go else [])])


def _status(load: Load) -> str | None:
    outcome = load.outcome
    if outcome is None:
        return LOADING if load.is_pending else None
    return str(outcome.status)


LOAD_SECONDS = 30.0
"""How long a load takes at most, unless two of its tries may take longer."""
LONGEST_PAUSE = 600.0
"""The longest pause between two loads of a server, in seconds, unless the first pause is longer."""
SPREAD = 0.1
"""By what part of it the time to a recheck varies, so that not all servers are opened together."""
LOGGED_SECONDS = 3600.0
"""How often a recheck that fails as the last one is logged."""
_logger = logging.getLogger(__name__)


class Supervisor:
    """Keeps an upstream loaded, in a task of its own; each load has a new outcome (L-4).

    After a transient outcome it loads again, after a pause that doubles each time. One that needs attention is looked
    at again after a longer time. After a denial it waits until a call opens the upstream. An opening by a call counts
    as a load. A lost connection is loaded again at once. If the
    connection lasted for less than the first pause, the rest of the pause comes first, so a server that exits as soon
    as it is connected is not started in a loop.
    """

    def __init__(self, upstream: Upstream, stub: LoadPolicy | LoadStub, recorder: Recorder | None = None) -> None:
        self._upstream = upstream
        self._stub = stub
        self._recorder = recorder
        self._latest: LoadOutcome | None = None
        self._logged = -math.inf
        self._known = asyncio.Event()
        self._classify = asyncio.Event()
        self._load_one = asyncio.Event()
        # Before the task gets its turn, so that everybody sees an opening under way.
        upstream.start()
        self._task = asyncio.create_task(self._keep(), name=f"keeping {upstream.name}")
        self._task.add_done_callback(self._let_go)

    @property
    def outcome(self) -> LoadOutcome | None:
        """The latest outcome; None before the first, and after a connection was lost.

        It always agrees with the state of the upstream: an upstream is available if and only if it is connected.
        """
        available = self._latest is not None and self._latest.status is LoadStatus.AVAILABLE
        if self._upstream.state != "connected":
            return None if available else self._latest
        return self._latest if available else _opened_meanwhile(self._upstream)

    @property
    def is_pending(self) -> bool:
        """Whether the first load is still without a result."""
        return not self._known.is_set()

    async def wait_until_known(self) -> None:
        """Wait until the first load has a first result, even if it is not finished."""
        await self._known.wait()

    async def wait_until_classified(self) -> None:
        """Wait until the try that is under way, if any, has a result: until then, `outcome` is an older one."""
        await self._classify.wait()

    async def wait_until_loaded(self) -> None:
        """Wait until the first load is finished or given up."""
        await self._load_one.wait()

    def end(self) -> None:
        """Start no further load."""
        self._task.cancel()

    async def close(self) -> None:
        """End, and wait for the cleanup of a load in progress."""
        self.end()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _keep(self) -> None:
        try:
            await self._load_for_ever()
        except Exception:
            _logger.exception("`%s` is not loaded again: its supervisor failed", self._upstream.name)

    def _let_go(self, task: asyncio.Task[None]) -> None:
        """Release all who wait, also if the task was ended before it had its turn."""
        for event in (self._known, self._classify, self._load_one):
            event.set()

    async def _load_for_ever(self) -> None:
        pause = 0.0
        rechecked: LoadOutcome | None = None
        while True:
            outcome = await self._load(rechecked)
            rechecked = None
            first_pause = self._upstream.reopen_seconds
            if outcome.status is LoadStatus.AVAILABLE:
                soonest = asyncio.get_running_loop().time() + first_pause
                await self._upstream.wait_until_ended()
                await self._opening_until(soonest)
                pause = 0.0
            elif outcome.status is LoadStatus.TRANSIENT:
                pause = pause or first_pause
                if not await self._opening_until(asyncio.get_running_loop().time() + pause):
                    pause = longer(pause, first_pause)
            else:
                rechecked = None if await self._opening_until(self._recheck_time(outcome)) else outcome
                pause = 0.0

    def _recheck_time(self, outcome: LoadOutcome) -> float | None:
        """Return the time of the loop at which a server that failed is looked at again; None for never."""
        seconds = self._upstream.recheck_seconds
        if outcome.status is LoadStatus.DENIED or not seconds:
            return None
        return asyncio.get_running_loop().time() + seconds * random.uniform(1 - SPREAD, 1 + SPREAD)

    async def _load(self, rechecked: LoadOutcome | None) -> LoadOutcome:
        """Load; of a recheck, only what differs from the earlier outcome is logged, or an hour after the last line."""
        seconds = max(LOAD_SECONDS, 2 * self._upstream.longest_opening)
        loader = Loader(self._stub, seconds=seconds, recorder=self._recorder)
        now = asyncio.get_running_loop().time()
        self._upstream.is_rechecked = rechecked is not None and now < self._logged + LOGGED_SECONDS
        try:
            outcome = await loader.load(
                self._upstream, retry_scheduled=True, report=self._take, begin=self._classify.clear
            )
            earlier = rechecked if self._upstream.is_rechecked else None
            is_known = earlier is not None and (outcome.status, outcome.error) == (earlier.status, earlier.error)
        finally:
            self._upstream.is_rechecked = False
        self._load_one.set()
        if outcome.status is not LoadStatus.AVAILABLE and not is_known:
            self._logged = now
            _logger.info("`%s` did not load: %s (attempts: %d)", outcome.server_id, outcome.status, outcome.attempts)
        return outcome

    def _take(self, outcome: LoadOutcome) -> None:
        self._latest = outcome
        self._known.set()
        self._classify.set()

    async def _opening_until(self, time: float | None) -> bool:
        """Wait until somebody else opens the upstream, but not beyond a time of the loop; say whether somebody did."""
        if self._upstream.state in ("connecting", "connected"):
            return True
        try:
            async with asyncio.timeout_at(time):
                await self._upstream.opening_started()
        except TimeoutError:
            return False
        return True


def longer(pause: float, first_pause: float) -> float:
    """Return the pause after a pause, in seconds: twice as long, up to ten minutes or to the first pause."""
    return min(2 * pause, max(LONGEST_PAUSE, first_pause))


def _opened_meanwhile(upstream: Upstream) -> LoadOutcome:
    return LoadOutcome(upstream.name, LoadStatus.AVAILABLE, upstream.tools, None, 1, ClassifyLoadResponse())
