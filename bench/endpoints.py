"""MCP endpoints over HTTP, some that are well and some that fail, each in its way; a process of its own.

It writes their URLs as one line of JSON, and ends when its standard input does.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack

from support.upstreams.bad_http import BadHttp, Step, reply

WELL = 20
FAILING: Mapping[str, Step] = {
    "hangs": "hang",
    "resets": "reset",
    "ends": "eof",
    "denies": reply(b"no", status="403 Forbidden", kind="text/plain"),
    "is absent": reply(b"no", status="404 Not Found", kind="text/plain"),
    "fails": reply(b"no", status="500 Internal Server Error", kind="text/plain"),
    "is no MCP": reply(b"<html>", kind="text/html"),
}


async def main() -> None:
    """Listen until standard input ends."""
    async with AsyncExitStack() as stack:
        well = [await stack.enter_async_context(BadHttp().listening()) for _ in range(WELL)]
        failing = {name: await stack.enter_async_context(BadHttp().listening()) for name in FAILING}
        for name, server in failing.items():
            server.opening = FAILING[name]
        gone = BadHttp()
        async with gone.listening():
            refused = gone.url
        urls = {"refuses": refused, **{name: server.url for name, server in failing.items()}}
        print(json.dumps({"well": [server.url for server in well], "failing": urls}), flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
