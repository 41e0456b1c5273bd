"""Opens a server with its stored login, in a process that is killed before what it was given is stored."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from callability.gateway.config.config import load_config
from callability.gateway.upstream.login_store import StoredLogin
from callability.gateway.upstream.target import logged_in_target
from callability.gateway.upstream.upstream import Upstream


def _die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def open_server(config: Path, server: str) -> None:
    """Open a server; what is written is never put in the place of the record."""
    loaded = load_config(config)
    os.replace = _die  # type: ignore[assignment]
    upstream = Upstream(server, logged_in_target(loaded.servers[server], StoredLogin(config, server), ""))
    upstream.start()
    await upstream.wait_until_open()


if __name__ == "__main__":
    asyncio.run(open_server(Path(sys.argv[1]), sys.argv[2]))
