"""A load generator in Python: it spends as much CPU on a call as the server, and measures itself along with it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from statistics import median
from time import perf_counter

import grpc

from callability.process.address import DIRECT

NAME = "a Python client"
_TIME_LIMIT = 60.0
_POOL = ("grpc.use_local_subchannel_pool", 1)


def calls_per_second(
    address: str, path: str, request: bytes, reply: bytes, *, calls: int, connections: int, streams: int
) -> float:
    """Send a request so often, in as many streams of as many connections, and return how many were answered a second.

    Raises:
        RuntimeError: a reply is not as expected.
        grpc.RpcError: a call failed.
    """
    return asyncio.run(_calls_per_second(address, path, request, reply, calls, connections, streams))


def as_bytes(channel: grpc.Channel, path: str) -> grpc.UnaryUnaryMultiCallable[bytes, bytes]:
    """Return a call whose request and reply are bytes."""
    return channel.unary_unary(path)


def round_trips(
    calls: Mapping[str, grpc.UnaryUnaryMultiCallable[bytes, bytes]], requests: Iterable[bytes]
) -> dict[str, float]:
    """Send requests one at a time, each by every call in turn, and return the median round trip of each in seconds.

    Raises:
        grpc.RpcError: a call failed.
    """
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for request in requests:
        for name, call in calls.items():
            started = perf_counter()
            call(request, timeout=_TIME_LIMIT)
            taken[name].append(perf_counter() - started)
    return {name: median(found) for name, found in taken.items()}


async def _calls_per_second(
    address: str, path: str, request: bytes, reply: bytes, calls: int, connections: int, streams: int
) -> float:
    # A pool of its own for each channel: they would share one connection otherwise.
    channels = [grpc.aio.insecure_channel(address, [DIRECT, _POOL]) for _ in range(connections)]
    left = iter(range(calls))

    async def stream(channel: grpc.aio.Channel) -> None:
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(path)
        for _ in left:
            if await call(request, timeout=_TIME_LIMIT) != reply:
                raise RuntimeError("a reply is not as expected")

    try:
        await asyncio.gather(*(channel.channel_ready() for channel in channels))
        started = perf_counter()
        await asyncio.gather(*(stream(channel) for channel in channels for _ in range(streams)))
        return calls / (perf_counter() - started)
    finally:
        for channel in channels:
            await channel.close()
