"""Large requests that arrive together leave the event loop to others between them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from callability.service.edge import COPIED_BYTES, Copies, TooLarge

LARGE = bytes(COPIED_BYTES + 1)
SMALL = b"small"


async def _read_together(requests: list[bytes | TooLarge]) -> list[tuple[int, int]]:
    """Let all requests arrive at once; return in their order of being read which it was, and in which pass."""
    copies, arrived = Copies(), asyncio.get_running_loop().create_future()
    read: list[tuple[int, int]] = []
    passes = 0

    async def arriving(request: bytes | TooLarge) -> bytes | TooLarge:
        await asyncio.shield(arrived)
        return request

    async def take(number: int, reading: Coroutine[Any, Any, Any]) -> None:
        assert await copies.take(reading) is requests[number]
        read.append((number, passes))

    tasks = [asyncio.create_task(take(number, arriving(each))) for number, each in enumerate(requests)]
    await asyncio.sleep(0)
    arrived.set_result(None)
    while not all(task.done() for task in tasks):
        passes += 1
        await asyncio.sleep(0)
    return read


@pytest.mark.parametrize("large", [LARGE, TooLarge(COPIED_BYTES, 1)], ids=["taken", "too large"])
def test_a_small_request_that_arrives_last_waits_for_few_large_ones(large: bytes | TooLarge) -> None:
    """And each pass of the event loop has one large request at most."""
    read = asyncio.run(_read_together([*[large] * 30, SMALL]))
    numbers, passes = zip(*read, strict=True)
    assert numbers.index(30) <= 2
    assert sorted(numbers) == list(range(31))
    of_large = [each for number, each in read if number != 30]
    assert len(set(of_large)) == 30
    assert passes[-1] > 30


def test_requests_that_are_small_wait_for_nothing() -> None:
    """All that arrive together are read in one pass."""
    assert len({each for _, each in asyncio.run(_read_together([SMALL] * 30))}) == 1


def test_a_call_that_ends_while_its_request_waits_keeps_no_other_waiting() -> None:
    """Its client has gone, or its deadline is over."""

    async def run() -> list[int]:
        copies, arrived = Copies(), asyncio.get_running_loop().create_future()

        async def arriving() -> bytes:
            await asyncio.shield(arrived)
            return LARGE

        async def take() -> bytes | TooLarge:
            taken: bytes | TooLarge = await copies.take(arriving())
            return taken

        tasks = [asyncio.create_task(take()) for _ in range(20)]
        await asyncio.sleep(0)
        arrived.set_result(None)
        for _ in range(4):
            await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        return [number for number, each in enumerate(ended) if each == LARGE]

    assert {*range(1, 20, 2)} <= {*asyncio.run(asyncio.wait_for(run(), 30))}
