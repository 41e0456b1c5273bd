"""Closes the socket of a TLS handshake that does not finish."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
from anyio.abc import AsyncResource


class Handshake:
    """For the `trace` extension of a request: closes the socket of a handshake that failed, or was cancelled.

    The library closes it if the handshake raises an `Exception`; if the handshake is cancelled, it leaves the socket to
    the garbage collector.
    """

    def __init__(self) -> None:
        self._socket: AsyncResource | None = None

    async def heard(self, event: str, info: Mapping[str, Any]) -> None:
        """Take an event of a connection, with its details."""
        if event.endswith(".connect_tcp.complete"):
            self._socket = info["return_value"]
        elif event.endswith(".start_tls.failed") and self._socket is not None:
            await anyio.aclose_forcefully(self._socket)
