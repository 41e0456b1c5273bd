"""What a watcher of the policy gets next, whenever it reads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from callability.service.callers import ShuttingDown
from callability.service.calls import CallabilityCalls, PolicyWatches, ServedPolicy
from callability.v1.policy_service_pb2 import WatchPolicyResponse
from support.bundles import EXAMPLES, SHIPPED, bundle_of, checked_of, policy_of
from support.waiting import SECONDS


def _calls(name: str) -> CallabilityCalls:
    return CallabilityCalls(checked_of(name))


def _served() -> ServedPolicy:
    return ServedPolicy(checked_of(SHIPPED))


async def _next(stream: AsyncIterator[bytes]) -> WatchPolicyResponse:
    async with asyncio.timeout(SECONDS):
        return WatchPolicyResponse.FromString(await anext(stream))


def test_a_watcher_that_reads_late_gets_the_newest_policy_alone() -> None:
    """What was replaced meanwhile is kept for nobody."""

    async def story() -> None:
        served = _served()
        stream = PolicyWatches(served).follow(b"")
        assert (await _next(stream)).bundle == bundle_of(SHIPPED)
        for name in EXAMPLES:
            served.replace(_calls(name))
        message = await _next(stream)
        assert (message.revision, message.bundle) == (policy_of(EXAMPLES[-1]).revision, bundle_of(EXAMPLES[-1]))
        waiting = asyncio.create_task(_next(stream))
        await asyncio.sleep(0)
        served.replace(_calls(SHIPPED))
        assert (await waiting).bundle == bundle_of(SHIPPED)
        await stream.aclose()

    asyncio.run(story())


def test_a_policy_that_is_edited_and_edited_back_is_confirmed_without_its_bundle() -> None:
    """A watcher that did not read meanwhile has it already."""

    async def story() -> None:
        served = _served()
        stream = PolicyWatches(served).follow(b"")
        first = await _next(stream)
        served.replace(_calls(EXAMPLES[0]))
        served.replace(_calls(SHIPPED))
        second = await _next(stream)
        assert (second.bundle_digest, second.bundle) == (first.bundle_digest, b"")
        await stream.aclose()

    asyncio.run(story())


def test_a_watcher_learns_that_the_service_stops_even_if_it_did_not_read() -> None:
    """It gets no further policy."""

    async def story() -> None:
        watches = PolicyWatches(_served())
        reading, late = watches.follow(b""), watches.follow(b"")
        await _next(reading)
        waiting = asyncio.create_task(_next(reading))
        await asyncio.sleep(0)
        await watches.end()
        for each in (waiting, _next(late)):
            with pytest.raises(ShuttingDown):
                await each

    asyncio.run(story())
