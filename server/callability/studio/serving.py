"""Running the studio: from binding its address to shutdown."""

from __future__ import annotations

import asyncio
import secrets
import signal
from collections.abc import Callable
from pathlib import Path

import uvicorn

from callability.address import check_loopback, listening
from callability.studio.application import Studio, application
from callability.studio.guard import Guard

GRACE = 2
"""Seconds that requests in flight have at the end."""


def names_of(host: str) -> tuple[str, ...]:
    """Return what a browser may call a server by its HOST:PORT; it leaves out port 80."""
    port = host.rpartition(":")[2]
    names = (host, f"localhost:{port}")
    return (*names, *(name.removesuffix(":80") for name in names)) if port == "80" else names


async def run(directory: Path, address: str, started: Callable[[str], None], *, writable: bool) -> None:
    """Serve the page until SIGTERM or SIGINT; `started` is given its URL.

    Raises:
        AddressRefused: the address is not loopback, or cannot be listened on.
    """
    check_loopback(address, "whoever reaches the page can edit the policy")
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    with listening(address) as listener:
        port = listener.getsockname()[1]
        host = f"{address.rpartition(':')[0]}:{port}"
        token = secrets.token_urlsafe(32)
        guarded = Guard(application(Studio(directory, writable=writable), token), names_of(host), token)
        config = uvicorn.Config(
            guarded,
            log_config=None,
            access_log=False,
            server_header=False,
            loop="asyncio",
            lifespan="on",
            timeout_graceful_shutdown=GRACE,
        )
        server = uvicorn.Server(config)
        started(f"http://{host}/")
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        stopped = asyncio.create_task(stopping.wait())
        await asyncio.wait({serving, stopped}, return_when=asyncio.FIRST_COMPLETED)
        server.should_exit = True
        stopped.cancel()
        await serving
