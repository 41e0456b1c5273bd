"""An MCP endpoint over HTTP whose answer to each `tools/call` a test sets, down to the bytes and the reset."""

import asyncio
import json
import re
import socket
import ssl
import struct
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

TRICKLE_SECONDS = 0.1


class Cut(NamedTuple):
    """Bytes that are no whole response, and what happens after them: "reset", "eof", "hang", or "trickle", which is
    spaces without an end.
    """

    data: bytes
    then: str


Step = bytes | str | Cut
Script = list[bytes | str]
Answer = Step | Callable[[dict[str, Any]], Step]


def reply(body: bytes, *, status: str = "200 OK", kind: str = "application/json", extra: str = "") -> bytes:
    """Return a whole HTTP response."""
    return f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{extra}\r\n".encode() + body


def result(request: dict[str, Any], value: dict[str, Any]) -> bytes:
    """Return the body of a successful JSON-RPC answer."""
    return json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": value}).encode()


def content(request: dict[str, Any], extra: str = "") -> bytes:
    """Return a whole response to a call, with nothing in it."""
    return reply(result(request, {"content": [], "resultType": "complete"}), extra=extra)


def refusal(request: dict[str, Any], message: str) -> bytes:
    """Return a whole response that refuses a call."""
    error = {"code": -32000, "message": message}
    return reply(json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}).encode())


class BadHttp:
    """Answers the opening well, and a call as `answers` says by the tool's name, else with the next item of `script`:
    bytes, "ok", "reset", "eof", "hang", or "wait", which is "ok" once `released` is set.

    It speaks MCP 2025-11-25, with a session where it has an id, or 2026-07-28.
    """

    def __init__(self, *, session: str = "", modern: bool = False, answers: Mapping[str, Answer] | None = None) -> None:
        self.port = 0
        self.script: Script = []
        self.answers = dict(answers or {})
        self.opening: Answer | None = None
        self.listing: Answer | None = None
        self.calls = 0
        self.accepted = 0
        self.head = ""
        self.requested_methods: list[str] = []
        """The methods of all requests, in their order."""
        self.session = session
        self.tls: ssl.SSLContext | None = None
        self.head_lines = b""
        """Raw lines that each response begins with, after its status line."""
        self.charset = b""
        """What follows the content type of each response."""
        self.waiting = asyncio.Event()
        self.given_up = asyncio.Event()
        self.released = asyncio.Event()
        self._modern = modern
        self._held = 0
        self._called: list[str] = []
        self._change = asyncio.Condition()
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._idle: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        """The endpoint."""
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self.port}/mcp"

    @asynccontextmanager
    async def listening(self) -> AsyncGenerator["BadHttp"]:
        """Listen on a free port, or on the one of the last time."""
        await self.listen()
        try:
            yield self
        finally:
            self.deafen()
            for connection in self._connections:
                connection.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)

    async def listen(self) -> None:
        """Begin to listen."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=self.tls)
        self.port = self._server.sockets[0].getsockname()[1]

    def deafen(self) -> None:
        """Listen no more, and end each connection as soon as nothing is asked on it."""
        if self._server is not None:
            self._server.close()
        for writer in self._idle:
            writer.close()

    def _listens(self) -> bool:
        return self._server is not None and self._server.is_serving()

    async def hold(self, count: int) -> None:
        """Wait until so many calls wait to be released."""
        async with self._change:
            await self._change.wait_for(lambda: self._held >= count)

    async def called(self, tool: str) -> None:
        """Wait until a tool is called."""
        async with self._change:
            await self._change.wait_for(lambda: tool in self._called)

    def release(self) -> None:
        """Answer the calls that wait; later ones wait again."""
        self.released.set()
        self.released = asyncio.Event()
        self._held = 0
        self._called.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        self.accepted += 1
        try:
            await self._answer_all(reader, writer)
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            writer.close()
            self._idle.discard(writer)
            self._connections.discard(task)

    async def _answer_all(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            self._idle.add(writer)
            self.head = (await reader.readuntil(b"\r\n\r\n")).decode()
            head = self.head.lower()
            self._idle.discard(writer)
            length = int(head.partition("content-length: ")[2].partition("\r\n")[0] or 0)
            body = await reader.readexactly(length)
            request = json.loads(body) if body else {}
            answer = self._answer(head, request)
            async with self._change:
                self._change.notify_all()
            if answer == "wait":
                self.waiting.set()
                await self.released.wait()
                answer = content(request, "" if self._listens() else "Connection: close\r\n")
            if isinstance(answer, bytes):
                answer = self._odd(answer)
            if isinstance(answer, Cut):
                writer.write(answer.data)
                await writer.drain()
                answer = answer.then
            if isinstance(answer, str):
                await self._break_off(answer, reader, writer)
                return
            writer.write(answer)
            await writer.drain()
            if b"content-length" not in answer.partition(b"\r\n\r\n")[0].lower():
                return

    def _odd(self, answer: bytes) -> bytes:
        head, end, body = answer.partition(b"\r\n\r\n")
        if self.charset:
            head = re.sub(rb"(?i)(content-type: [^\r]*)", rb"\1; charset=" + self.charset, head)
        return head.replace(b"\r\n", b"\r\n" + self.head_lines, 1) + end + body

    async def _break_off(self, how: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if how == "trickle":
            while not reader.at_eof() and not writer.is_closing():
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(TRICKLE_SECONDS)
        elif how == "hang":
            self.waiting.set()
            await reader.read()
            self.given_up.set()
        elif how == "reset":
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    def _answer(self, head: str, request: dict[str, Any]) -> Step:
        method = request.get("method")
        self.requested_methods.append(method or "")
        if self.opening is not None and method in ("server/discover", "initialize"):
            return self.opening(request) if callable(self.opening) else self.opening
        if method == "server/discover" and self._modern:
            value = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "resultType": "complete"}
            return reply(result(request, value | {"ttlMs": 0, "cacheScope": "private"}))
        if method == "initialize":
            server = {"name": "bad", "version": "1"}
            value = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": server}
            extra = f"Mcp-Session-Id: {self.session}\r\n" if self.session else ""
            return reply(result(request, value), extra=extra)
        if not method and isinstance(self.opening, bytes) and b" 404 " in self.opening[:16]:
            # An address that is not there is there for no method.
            return self.opening
        if method == "server/discover" or not method:
            return reply(b"", status="405 Method Not Allowed")
        if self.session and f"mcp-session-id: {self.session}" not in head:
            return reply(b"", status="404 Not Found")
        if "id" not in request:
            return reply(b"", status="202 Accepted")
        if method == "tools/list":
            listing = self.listing or (lambda request: reply(result(request, self._tools())))
            return listing(request) if callable(listing) else listing
        return self._answer_call(request)

    def _answer_call(self, request: dict[str, Any]) -> Step:
        self.calls += 1
        name = request["params"]["name"]
        self._called.append(name)
        if name == "hold":
            self._held += 1
            return "wait"
        step = self.answers.get(name) or (self.script.pop(0) if self.script else "ok")
        if callable(step):
            return step(request)
        return content(request) if step == "ok" else step

    def _tools(self) -> dict[str, Any]:
        names = ["pid", "hold", *self.answers]
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
        return {"tools": tools, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
