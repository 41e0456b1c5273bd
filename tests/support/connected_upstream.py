"""An upstream of the gateway that is connected, and closed in the end."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from callability.gateway.upstream.upstream import Upstream


@asynccontextmanager
async def connected(it: Upstream) -> AsyncGenerator[Upstream]:
    """Connect an upstream, and close it at the end of the block."""
    it.start()
    try:
        await it.wait_until_open()
        yield it
    finally:
        await it.close()
