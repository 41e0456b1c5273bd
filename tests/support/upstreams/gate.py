"""An MCP server over stdio whose calls take as long as a test wants them to. It speaks MCP 2026-07-28.

It is written without the SDK, whose import takes a second.
"""

import asyncio
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

TOOLS = ("pass", "report", "flood", "fill")
PAUSE = 0.05
SIZE = 300_000
COMPLETE = {"resultType": "complete"}
ABOUT = {**COMPLETE, "ttlMs": 0, "cacheScope": "private"}
RESULTS: dict[str, dict[str, Any]] = {
    "server/discover": {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, **ABOUT},
    "tools/list": {
        "tools": [{"name": name, "description": "Waits.", "inputSchema": {"type": "object"}} for name in TOOLS],
        **ABOUT,
    },
    "ping": COMPLETE,
}
"""What is answered at once."""


class Gate:
    """The calls in progress."""

    def __init__(self) -> None:
        self._calls: dict[object, asyncio.Task[None]] = {}
        self._writer = ThreadPoolExecutor(1)

    async def take(self, message: dict[str, Any]) -> None:
        """Answer a request, or begin to."""
        method, params = message.get("method"), message.get("params") or {}
        if method == "notifications/cancelled" and params.get("requestId") in self._calls:
            self._calls[params["requestId"]].cancel()
        if "id" not in message:
            return
        if method == "tools/call":
            self._calls[message["id"]] = asyncio.create_task(self._call(message["id"], params))
        elif method in RESULTS:
            await self._write({"id": message["id"], "result": RESULTS[method]})
        else:
            await self._write({"id": message["id"], "error": {"code": -32601, "message": "Method not found"}})

    async def _call(self, number: object, params: dict[str, Any]) -> None:
        arguments, token = params.get("arguments") or {}, (params.get("_meta") or {}).get("progressToken")
        match params["name"]:
            case "pass":
                await _pass(Path(arguments["waits"]), Path(arguments["until"]))
                text = "x" * SIZE
            case "report":
                for progress in range(int(arguments["seconds"] / PAUSE)):
                    await self._report(token, progress)
                    await asyncio.sleep(PAUSE)
                text = "reported"
            case "flood":
                for progress in range(arguments["times"]):
                    await self._report(token, progress, message="far")
                text = "flooded"
            case _:
                text = arguments["text"] * arguments["times"]
        await self._write({"id": number, "result": {"content": [{"type": "text", "text": text}], **COMPLETE}})

    async def _report(self, token: object, progress: int, **more: str) -> None:
        if token is not None:
            params = {"progressToken": token, "progress": progress, **more}
            await self._write({"method": "notifications/progress", "params": params})

    async def _write(self, message: dict[str, Any]) -> None:
        """Write a line, however long its reader takes."""
        line = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False).encode() + b"\n"
        await asyncio.get_running_loop().run_in_executor(self._writer, _write_line, line)


def _write_line(line: bytes) -> None:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


async def _pass(waits: Path, until: Path) -> None:
    """Create the one file, and wait for the other."""
    await asyncio.to_thread(waits.touch)
    while not await asyncio.to_thread(until.exists):  # noqa: ASYNC110 - another process makes the file
        await asyncio.sleep(0.02)


async def main() -> None:
    """Serve until stdin ends."""
    gate = Gate()
    while line := await asyncio.to_thread(sys.stdin.readline):
        await gate.take(json.loads(line))


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
