"""Running a check again after each edit of a policy, for its author at a terminal."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Annotated

import typer

from callability.files.policy_origin import PolicyOrigin
from callability.files.policy_source import PolicySource

WatchOption = Annotated[
    bool,
    typer.Option("--watch", help="Repeat after each edit, until SIGINT or SIGTERM. The last run gives the exit code."),
]


def watched(origin: PolicyOrigin, act: Callable[[PolicySource], bool]) -> bool:
    """Act on a policy now and after each edit until SIGINT or SIGTERM, and return the last result."""
    # Most calls watch nothing, and need not wait for these imports.
    import asyncio  # noqa: PLC0415

    from callability.watching import looks  # noqa: PLC0415

    came_of_it = False

    async def follow() -> None:
        nonlocal came_of_it
        seen = None
        async for _ in looks(origin.followed):
            written = origin.source()
            if written.digest != seen:
                seen = written.digest
                came_of_it = act(written)

    async def until_stopped() -> None:
        following = asyncio.create_task(follow())
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, following.cancel)
        await asyncio.wait({following})
        if not following.cancelled():
            following.result()

    asyncio.run(until_stopped())
    return came_of_it
