"""An HTTP server on a listener of its own, until signals ask the process to stop."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

REPEAT_SECONDS = 0.25
"""A signal sooner after the first one is the same one, sent twice: a terminal and a parent process both send it."""
CUT_SECONDS = 1
"""Seconds in which the requests that are cut off end their answers."""
_logger = logging.getLogger(__name__)


class StopSignals:
    """What signals request: the first one to stop, and another one to stop at once."""

    def __init__(self, *numbers: signal.Signals) -> None:
        self.requested = asyncio.Event()
        self.at_once = asyncio.Event()
        self._first: float | None = None
        for number in numbers:
            asyncio.get_running_loop().add_signal_handler(number, self._receive)

    def _receive(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._first is None:
            self._first = now
            self.requested.set()
        elif now - self._first >= REPEAT_SECONDS:
            self.at_once.set()


class UvicornServer(uvicorn.Server):
    """A server for an application, with the options of uvicorn; it leaves signals to the process."""

    def __init__(self, application: Any, **options: Any) -> None:
        # Under uvloop a child's pipe stays open in other children, so its end goes unnoticed.
        super().__init__(uvicorn.Config(application, log_config=None, loop="asyncio", **options))

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none: `StopSignals` does, for all that the process runs."""
        yield

    async def serve_until(
        self,
        listener: socket.socket,
        signals: StopSignals,
        grace_seconds: float,
        stopping: Callable[[], None] = lambda: None,
    ) -> None:
        """Serve until a signal comes. Requests in flight then have `grace_seconds`, unless another signal comes.

        `stopping` is called at the first signal.
        """
        serving = asyncio.create_task(self.serve(sockets=[listener]))
        await _first_of(serving, signals.requested.wait())
        stopping()
        self.should_exit = True
        await _first_of(serving, signals.at_once.wait(), asyncio.sleep(grace_seconds))
        if not serving.done():
            await self._cut("another signal came" if signals.at_once.is_set() else f"{grace_seconds} s are over")
        await serving

    async def _cut(self, why: str) -> None:
        """End the requests in flight, and the connections whose client does not read."""
        tasks = set(self.server_state.tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            _logger.warning("%d requests are cut off: %s", len(tasks), why)
            await asyncio.wait(tasks, timeout=CUT_SECONDS)
        for connection in tuple(self.server_state.connections):
            connection.transport.abort()


async def _first_of(serving: asyncio.Task[None], *others: Coroutine[Any, Any, object]) -> None:
    """Wait until the server has ended, or one of the others has."""
    waiting = [asyncio.create_task(other) for other in others]
    await asyncio.wait({serving, *waiting}, return_when=asyncio.FIRST_COMPLETED)
    for each in waiting:
        each.cancel()
