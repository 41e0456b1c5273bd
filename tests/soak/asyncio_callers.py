"""Callers of `CheckTool` in an event loop: through the client, and by gRPC alone without retries."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from itertools import islice
from pathlib import Path

import grpc

from callability.client import Client, PolicyUnavailable
from callability.v1 import callability_service_pb2 as pb
from callability.v1.callability_service_pb2_grpc import CallabilityServiceStub
from soak import control
from soak.reference import Question
from soak.work import ATTEMPT_SECONDS, CALLERS, RAW_CALLERS, Outcome, Recorder, Series, Work
from support.callers import bearer

_PAUSE_SECONDS = 0.1
"""Between two calls of a caller. So the latency is that of calls, and not of a queue for the processor."""
_ROUND_ROBIN = json.dumps({"loadBalancingConfig": [{"round_robin": {}}]})

_Ask = Callable[[pb.CheckToolRequest], Awaitable[pb.CheckToolResponse]]


class _Callers:
    """Callers that ask one question after the other, until they are to end."""

    def __init__(self, work: Work) -> None:
        self._questions = work.questions.single
        self._ending = asyncio.Event()
        self._answered = 0

    def end(self) -> None:
        """Let each finish its call."""
        self._ending.set()

    async def run(self, ask: _Ask, recorder: Recorder, first: int) -> None:
        """Ask from the given question on, and note the outcome of each call."""
        number = first
        while not self._ending.is_set():
            await self._call(ask, self._questions[number % len(self._questions)], recorder)
            number += 1
            if number == first + 1:
                self._answered += 1
                if self._answered == CALLERS + RAW_CALLERS:
                    control.ready()
            await asyncio.sleep(_PAUSE_SECONDS)

    @staticmethod
    async def _call(ask: _Ask, question: Question, recorder: Recorder) -> None:
        began = time.monotonic()
        assert isinstance(question.request, pb.CheckToolRequest)
        try:
            response = await ask(question.request)
        except PolicyUnavailable as error:
            recorder.add(began, Outcome.LOST, str(error))
        except grpc.aio.AioRpcError as error:
            recorder.add(began, Outcome.LOST, f"{error.code().name}: {error.details()}")
        else:
            ended = time.monotonic()
            fault = question.fault(response)
            recorder.add(began, Outcome.WRONG if fault else Outcome.CORRECT, fault, ended)


async def _main(work: Work) -> None:
    callers, loop = _Callers(work), asyncio.get_running_loop()

    def end(_revision: str) -> None:
        loop.call_soon_threadsafe(callers.end)

    control.listen(partial(control.drop_connections, work.addresses), end)
    recorders = {series: Recorder(work.results, series) for series in (Series.SINGLE, Series.RAW)}
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(
            Client.remote(work.addresses, credentials=work.credentials, attempt_seconds=ATTEMPT_SECONDS)
        )
        raw = _raw(await stack.enter_async_context(_channel(work)), work.token)
        asks = [(client.check_tool, Series.SINGLE)] * CALLERS + [(raw, Series.RAW)] * RAW_CALLERS
        every = len(work.questions.single)
        starts = islice(range(0, every, every // len(asks)), len(asks))
        async with asyncio.TaskGroup() as group:
            for first, (ask, series) in zip(starts, asks, strict=True):
                group.create_task(callers.run(ask, recorders[series], first))
    control.finished({series: recorder.close() for series, recorder in recorders.items()})


def _channel(work: Work) -> grpc.aio.Channel:
    """Return a channel that balances by itself, and retries nothing."""
    options = (
        ("grpc.enable_retries", 0),
        ("grpc.service_config", _ROUND_ROBIN),
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 500),
        ("grpc.ssl_target_name_override", "127.0.0.1"),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.enable_http_proxy", 0),
    )
    credentials = work.credentials.of_channel
    assert credentials is not None
    return grpc.aio.secure_channel(f"ipv4:{','.join(work.addresses)}", credentials, options=options)


def _raw(channel: grpc.aio.Channel, token: str) -> _Ask:
    stub, metadata = CallabilityServiceStub(channel), bearer(token)

    async def ask(request: pb.CheckToolRequest) -> pb.CheckToolResponse:
        return await stub.CheckTool(request, timeout=ATTEMPT_SECONDS, metadata=metadata)

    return ask


if __name__ == "__main__":
    asyncio.run(_main(Work.read(Path(sys.argv[1]))))
