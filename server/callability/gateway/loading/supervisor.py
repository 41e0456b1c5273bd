"""Keeps one upstream loaded for as long as it is wanted, and retries what the policy calls transient (L-4)."""

from __future__ import annotations

import asyncio
import logging
import math
import random

from callability.gateway.loading.load_outcome import LoadOutcome
from callability.gateway.loading.loader import Loader
from callability.gateway.policy_client.load_policy import LoadPolicy, LoadStub
from callability.gateway.upstream import Upstream
from callability.v1.callability_service_pb2 import ClassifyLoadResponse
from callability.vocabulary import LoadStatus

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

    def __init__(self, upstream: Upstream, stub: LoadPolicy | LoadStub) -> None:
        self._upstream = upstream
        self._stub = stub
        self._latest: LoadOutcome | None = None
        self._logged = -math.inf
        self._known = asyncio.Event()
        self._classified = asyncio.Event()
        self._loaded = asyncio.Event()
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

    async def known(self) -> None:
        """Wait until the first load has a first result, even if it is not finished."""
        await self._known.wait()

    async def classified(self) -> None:
        """Wait until the try that is under way, if any, has a result: until then, `outcome` is an older one."""
        await self._classified.wait()

    async def loaded(self) -> None:
        """Wait until the first load is finished or given up."""
        await self._loaded.wait()

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
        for event in (self._known, self._classified, self._loaded):
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
                await self._upstream.ended()
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
        loader = Loader(self._stub, seconds=seconds)
        now = asyncio.get_running_loop().time()
        self._upstream.is_rechecked = rechecked is not None and now < self._logged + LOGGED_SECONDS
        try:
            outcome = await loader.load(
                self._upstream, retry_scheduled=True, report=self._take, begin=self._classified.clear
            )
            is_known = self._upstream.is_rechecked and rechecked is not None and _is_alike(outcome, rechecked)
        finally:
            self._upstream.is_rechecked = False
        self._loaded.set()
        if outcome.status is not LoadStatus.AVAILABLE and not is_known:
            self._logged = now
            _logger.info("`%s` did not load: %s (attempts: %d)", outcome.server_id, outcome.status, outcome.attempts)
        return outcome

    def _take(self, outcome: LoadOutcome) -> None:
        self._latest = outcome
        self._known.set()
        self._classified.set()

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


def _is_alike(outcome: LoadOutcome, earlier: LoadOutcome) -> bool:
    return (outcome.status, outcome.error) == (earlier.status, earlier.error)


def _opened_meanwhile(upstream: Upstream) -> LoadOutcome:
    return LoadOutcome(upstream.name, LoadStatus.AVAILABLE, upstream.tools, None, 1, ClassifyLoadResponse())
