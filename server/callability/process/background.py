"""What an event loop goes on beside: the output of a child process, tasks of a block, and signals to stop."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from callability.process.child import Child


async def output_of(module: str, task: bytes, seconds: float) -> bytes:
    """Run a module, hand it a task on standard input, and return what it writes to standard output.

    A caller that stops waiting ends the process, and those that it started.

    Raises:
        NoOutput: the process cannot be started, took longer than `seconds`, or failed.
    """
    # Not asyncio's own: under uvloop the end of a child's pipe can go unnoticed.
    child = Child(module)
    try:
        return await asyncio.to_thread(child.exchange, task, seconds, lambda output: output.read())
    finally:
        child.end()


@asynccontextmanager
async def in_background(*work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run coroutines inside the context, and cancel them at its end."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        yield
    finally:
        await end_tasks(*tasks)


def begin_task(work: Coroutine[Any, Any, None], kept: set[asyncio.Task[None]], name: str | None = None) -> None:
    """Do work in a task that is in a set until it ends: an event loop alone does not keep a task."""
    task = asyncio.create_task(work, name=name)
    kept.add(task)
    task.add_done_callback(kept.discard)


async def end_tasks(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks, and wait until they have ended."""
    for each in tasks:
        each.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def stop_signals() -> tuple[signal.Signals, ...]:
    """Return the signals that stop a program: not SIGHUP if it was started to outlive its terminal, as by `nohup`."""
    outlives = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return (signal.SIGTERM, signal.SIGINT) if outlives else (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
