"""An MCP server over HTTP+SSE whose answers a test sets, down to the bytes of an event and the end of the stream."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from support.upstreams.bad_http import Cut, reply, result

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
REFUSED = reply(b"", status="405 Method Not Allowed")
ACCEPTED = reply(b"Accepted", status="202 Accepted", kind="text/plain")

Written = bytes | Cut
Answer = Callable[[dict[str, Any]], Written]


def event(data: bytes, name: str = "message") -> bytes:
    """Return an event with one line of data."""
    return f"event: {name}\r\ndata: ".encode() + data + b"\r\n\r\n"


def answer(request: dict[str, Any], text: str = "") -> bytes:
    """Return the event that answers a call."""
    return event(result(request, {"content": [{"type": "text", "text": text}]}))


class BadEvents:
    """Answers the opening well, and a call with what `answers` has for the tool: written to the stream, which ends with
    a `Cut`. `refusals` are whole HTTP responses to the POST of a call, or of another method.

    `opening` is the whole response to the GET; `posted` that to a POST at the address itself.
    """

    def __init__(
        self,
        *,
        answers: Mapping[str, Answer] | None = None,
        refusals: Mapping[str, Written] | None = None,
        endpoint: str = "/messages?session=hidden",
        opening: Written | None = None,
        posted: bytes = REFUSED,
    ) -> None:
        self.answers = dict(answers or {})
        self.refusals = dict(refusals or {})
        self.endpoint = endpoint
        self.opening = opening
        self.posted = posted
        self.port = 0
        self.requests: list[str] = []
        """"METHOD /path" of each request, in their order."""
        self.heads: list[str] = []
        """The heads of the same requests."""
        self.heard = asyncio.Condition()
        self.methods: list[str] = []
        """The methods of the messages, in their order."""
        self._stream: asyncio.StreamWriter | None = None
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """The address of the stream."""
        return f"http://127.0.0.1:{self.port}/sse"

    @asynccontextmanager
    async def listening(self) -> AsyncGenerator[BadEvents]:
        """Listen on a free port."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for connection in self._connections:
                connection.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)

    async def until(self, method: str) -> None:
        """Wait until a message of a method has arrived."""
        async with self.heard:
            await self.heard.wait_for(lambda: method in self.methods)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            while True:
                await self._answer_one(reader, writer)
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            writer.close()
            self._connections.discard(task)

    async def _answer_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        method, target = head.split(" ", 2)[:2]
        length = int(head.lower().partition("content-length: ")[2].partition("\r\n")[0] or 0)
        body = await reader.readexactly(length)
        self.requests.append(f"{method} {target.partition('?')[0]}")
        self.heads.append(head)
        if method == "GET":
            self._stream = writer
            await _write(writer, self.opening or HEAD + event(self.endpoint.encode(), "endpoint"))
            await reader.read()
            raise ConnectionAbortedError
        if target == "/sse":
            await _write(writer, self.posted)
        else:
            await self._take(json.loads(body), writer)

    async def _take(self, message: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        method = message.get("method", "")
        subject = message["params"]["name"] if method == "tools/call" else method
        async with self.heard:
            self.methods.append(method)
            self.heard.notify_all()
        if subject in self.refusals:
            await _write(writer, self.refusals[subject])
            return
        await _write(writer, ACCEPTED)
        if "id" in message and method and self._stream is not None:
            written = self.answers[subject](message) if subject in self.answers else _answered(message, method)
            await _write(self._stream, written)


async def _write(writer: asyncio.StreamWriter, written: Written) -> None:
    writer.write(written.data if isinstance(written, Cut) else written)
    await writer.drain()
    if isinstance(written, Cut):
        writer.close()


def _answered(message: dict[str, Any], method: str) -> bytes:
    match method:
        case "initialize":
            server = {"name": "bad", "version": "1"}
            value = {"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}, "serverInfo": server}
            return event(result(message, value))
        case "tools/list":
            return event(result(message, {"tools": [{"name": "fine", "inputSchema": {"type": "object"}}]}))
        case "tools/call":
            return answer(message, "fine")
    return event(result(message, {}))
