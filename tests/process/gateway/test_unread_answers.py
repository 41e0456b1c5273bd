"""An agent that does not read its answers: its connection ends, and little of them waits for it."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from callability.gateway.config.model import HttpConfig
from callability.gateway.serving import http_connections, http_sessions
from callability.gateway.serving.http_connections import HttpConnection
from callability.gateway.serving.http_server import HttpRequests
from callability.process.web_server import StopSignals, UvicornServer
from support.checkout import UPSTREAMS
from support.gateway_requests import INITIALIZE
from support.gateways import write_config
from support.running import command_of_script, start
from support.waiting import SECONDS, becomes

RICH = UPSTREAMS / "rich.py"
PING = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}'
SIZE = 24 * 1024 * 1024
"""Bytes of an answer: more than the system keeps for a connection."""


_requests: list[None] = []


async def served() -> int:
    """Return how many requests have come."""
    return len(_requests)


async def _large(_scope: Any, receive: Any, send: Any) -> None:
    _requests.append(None)
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", str(SIZE).encode())]})
    await send({"type": "http.response.body", "body": b"x" * SIZE})


@asynccontextmanager
async def _serving() -> AsyncIterator[tuple[int, Callable[[], Awaitable[int]]]]:
    """Answer requests as the gateway does, with a large answer, and yield the port and what counts the connections."""
    requests = HttpRequests(_large, HttpConfig, lambda _: None)
    listener = socket.create_server(("127.0.0.1", 0))
    signals = StopSignals()
    server = UvicornServer(requests, http=HttpConnection, lifespan="off")
    serving = asyncio.create_task(server.serve_until(listener, signals, 0))

    async def connections() -> int:
        return len(server.server_state.connections)

    yield listener.getsockname()[1], connections
    signals.requested.set()
    await serving


class _Client:
    """Asks, and reads nothing of the answer until `rest`."""

    def __init__(self, port: int, address: str = "127.0.0.1") -> None:
        self._socket = socket.socket()
        self._socket.bind((address, 0))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        self._socket.settimeout(SECONDS)
        self._socket.connect(("127.0.0.1", port))
        self._socket.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(PING), PING))

    def rest(self) -> int:
        """Return how many bytes of the answer's body can be read."""
        found = b""
        try:
            while len(found) < SIZE and (data := self._socket.recv(1_048_576)):
                found += data
        except ConnectionError:
            pass
        self._socket.close()
        return len(found.partition(b"\r\n\r\n")[2])


def test_a_client_that_reads_nothing_of_an_answer_loses_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer would be kept for as long as the connection; a client that reads gets all of it."""
    monkeypatch.setattr(http_connections, "UNREAD_SECONDS", 0.2)

    async def story() -> None:
        async with _serving() as (port, connections):
            _requests.clear()
            unread = await asyncio.to_thread(_Client, port)
            await becomes(served, 1)
            await becomes(connections, 0)
            assert await asyncio.to_thread(unread.rest) < SIZE
            # On a busy machine, a client that reads may pause for longer than that.
            monkeypatch.setattr(http_connections, "UNREAD_SECONDS", SECONDS)
            assert await asyncio.to_thread(_Client(port).rest) == SIZE

    asyncio.run(story())


def test_what_waits_for_an_agent_that_reads_nothing_is_bounded(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """However many connections it has: those end of which nothing was read for longest, and the others are whole."""
    monkeypatch.setattr(http_sessions, "UNREAD_BYTES", 2 * SIZE)

    async def story() -> None:
        async with _serving() as (port, connections):
            _requests.clear()
            unread = [await asyncio.to_thread(_Client, port) for _ in range(5)]

            await becomes(served, 5)
            await becomes(connections, 2)
            read = [await asyncio.to_thread(each.rest) for each in unread]
            assert [count == SIZE for count in read] == [False, False, False, True, True]
            assert await asyncio.to_thread(_Client(port).rest) == SIZE

    asyncio.run(story())
    assert "clients without a token do not read answers: over 48 MiB would wait" in caplog.text


def test_a_client_without_a_token_that_reads_is_answered_while_others_read_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are one agent to the gateway: what waits for those who do not read makes room for one who does."""
    monkeypatch.setattr(http_sessions, "UNREAD_BYTES", 2 * SIZE)
    monkeypatch.setattr(http_connections, "UNREAD_SECONDS", SECONDS)

    async def story() -> None:
        async with _serving() as (port, connections):
            _requests.clear()
            unread = [await asyncio.to_thread(_Client, port) for _ in range(2)]
            await becomes(served, 2)
            for _ in range(2):
                assert await asyncio.to_thread(_Client(port).rest) == SIZE
            await becomes(connections, 1)
            assert [await asyncio.to_thread(each.rest) == SIZE for each in unread] == [False, True]

    asyncio.run(story())


def test_a_client_is_not_ended_for_what_waits_for_another_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Although it has read nothing for longest: the address for which most waits makes room."""
    monkeypatch.setattr(http_sessions, "UNREAD_BYTES", 3 * SIZE)
    monkeypatch.setattr(http_connections, "UNREAD_SECONDS", SECONDS)

    async def story() -> None:
        async with _serving() as (port, connections):
            _requests.clear()
            slow = await asyncio.to_thread(_Client, port, "127.0.0.2")
            await becomes(served, 1)
            greedy = [await asyncio.to_thread(_Client, port) for _ in range(4)]
            await becomes(served, 5)
            await becomes(connections, 3)
            assert await asyncio.to_thread(slow.rest) == SIZE
            assert [await asyncio.to_thread(each.rest) == SIZE for each in greedy] == [False, False, True, True]

    asyncio.run(story())


def test_an_agent_over_stdio_that_reads_no_answers_ends_the_gateway(tmp_path: Path) -> None:
    """Each answer of 4 MB would stay in memory; one line says why it ended."""
    command, *rest = command_of_script(RICH)
    config = write_config(tmp_path, {"rich": {"command": command, "args": rest, "trust": "auto"}})
    pipe = subprocess.PIPE
    with start("gateway", "--config", str(config), stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(INITIALIZE).encode() + b"\n")
        process.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        process.stdin.flush()
        process.stdout.readline()
        call = {"name": "call_tool", "arguments": {"name": "rich:a large answer", "arguments": {}}}
        for number in range(2, 32):
            request = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": call}
            process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
        assert process.wait(SECONDS) == 1
        assert process.stderr is not None
        *_, last = process.stderr.read().decode().splitlines()
        with suppress(BrokenPipeError):
            process.stdin.close()
    assert last == "callability: the agent does not read its answers: over 64 MiB would wait"
