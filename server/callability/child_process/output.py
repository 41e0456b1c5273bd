"""The output of a child process, awaited by a service that goes on meanwhile."""

from __future__ import annotations

import asyncio
from typing import IO

from callability.child_process.child import Child


async def output_of(module: str, task: bytes, seconds: float) -> bytes:
    """Run a module, hand it a task on standard input, and return what it writes to standard output.

    A caller that stops waiting ends the process, and those that it started.

    Raises:
        NoOutput: the process cannot be started, took longer than `seconds`, or failed.
    """
    # Not asyncio's own: under uvloop the end of a child's pipe can go unnoticed.
    child = Child(module)
    try:
        return await asyncio.to_thread(child.exchange, task, seconds, _whole)
    finally:
        child.end()


def _whole(output: IO[bytes]) -> bytes:
    return output.read()
