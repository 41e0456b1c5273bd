"""An MCP endpoint over HTTP whose answer to each `tools/call` is scripted, down to the bytes and the reset."""

import asyncio
import json
import socket
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

Script = list[bytes | str]


def reply(body: bytes, *, status: str = "200 OK", kind: str = "application/json", extra: str = "") -> bytes:
    """Return a whole HTTP response."""
    return f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{extra}\r\n".encode() + body


def result(request: dict[str, Any], value: dict[str, Any]) -> bytes:
    """Return the body of a successful JSON-RPC answer."""
    return json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": value}).encode()


class BadHttp:
    """Answers the opening well, and each call with the next item of `script`: bytes, "ok", "reset", "eof", "hang",
    or "wait", which is "ok" once `released` is set.
    """

    def __init__(self, *, session: str = "") -> None:
        self.port = 0
        self.script: Script = []
        self.opening: bytes | str | None = None
        self.calls = 0
        self.session = session
        self.waiting = asyncio.Event()
        self.given_up = asyncio.Event()
        self.released = asyncio.Event()
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """The endpoint."""
        return f"http://127.0.0.1:{self.port}/mcp"

    @asynccontextmanager
    async def listening(self) -> AsyncGenerator["BadHttp"]:
        """Listen on a free port, or on the one of the last time."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for connection in self._connections:
                connection.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._answer_all(reader, writer)
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            writer.close()
            self._connections.discard(task)

    async def _answer_all(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = int(head.partition("content-length: ")[2].partition("\r\n")[0] or 0)
            body = await reader.readexactly(length)
            answer = self._answer(head, json.loads(body) if body else {})
            if answer == "wait":
                self.waiting.set()
                await self.released.wait()
                answer = reply(result(json.loads(body), {"content": []}))
            if answer == "hang":
                await reader.read()
                self.given_up.set()
            if answer == "reset":
                linger = struct.pack("ii", 1, 0)
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            if isinstance(answer, str):
                return
            writer.write(answer)
            await writer.drain()
            if b"content-length" not in answer.partition(b"\r\n\r\n")[0].lower():
                return

    def _answer(self, head: str, request: dict[str, Any]) -> bytes | str:
        method = request.get("method")
        if self.opening is not None and method in ("server/discover", "initialize"):
            return self.opening
        if method == "initialize":
            server = {"name": "bad", "version": "1"}
            value = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": server}
            extra = f"Mcp-Session-Id: {self.session}\r\n" if self.session else ""
            return reply(result(request, value), extra=extra)
        if method == "server/discover" or not method:
            return reply(b"", status="405 Method Not Allowed")
        if self.session and f"mcp-session-id: {self.session}" not in head:
            return reply(b"", status="404 Not Found")
        if "id" not in request:
            return reply(b"", status="202 Accepted")
        if method == "tools/list":
            return reply(result(request, {"tools": [{"name": "pid", "inputSchema": {"type": "object"}}]}))
        self.calls += 1
        step = self.script.pop(0) if self.script else "ok"
        return reply(result(request, {"content": []})) if step == "ok" else step
