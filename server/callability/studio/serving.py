"""Running the studio: from binding its address to shutdown."""

from __future__ import annotations

import secrets
import signal
from collections.abc import Callable
from pathlib import Path

from callability.address import check_loopback, listening
from callability.studio.application import Studio, application
from callability.studio.guard import Guard
from callability.uvicorn_server import StopSignals, UvicornServer

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
    check_loopback(address, "anyone who reaches the page can edit the policy")
    signals = StopSignals(signal.SIGTERM, signal.SIGINT)
    with listening(address) as listener:
        port = listener.getsockname()[1]
        host = f"{address.rpartition(':')[0]}:{port}"
        token = secrets.token_urlsafe(32)
        guarded = Guard(application(Studio(directory, writable=writable), token), names_of(host), token)
        server = UvicornServer(guarded, access_log=False, server_header=False, lifespan="on")
        started(f"http://{host}/")
        await server.serve_until(listener, signals, GRACE)
