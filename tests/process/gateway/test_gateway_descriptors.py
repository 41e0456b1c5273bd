"""A gateway over HTTP without free file descriptors: it logs little, and recovers."""

from __future__ import annotations

import asyncio
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest
import uvicorn
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from callability.gateway.serving import http_connections
from callability.gateway.serving.http_connections import HttpConnection
from support.gateway_requests import modern
from support.gateways import bad, write_config
from support.running import COMMAND

pytestmark = pytest.mark.anyio

DESCRIPTORS = 128
MANY = 300
LOG_LINES = 60
LIST = {"name": "upstream_servers", "arguments": {}}


@pytest.fixture
def anyio_backend() -> str:
    """The gateway runs on asyncio."""
    return "asyncio"


@asynccontextmanager
async def _running(config: Path) -> AsyncIterator[str]:
    """Run a gateway that may have few file descriptors, and yield its URL."""
    # A shell sets the limit: code between fork and exec could wait forever for a lock of a thread of this process.
    limited = ["sh", "-c", f'ulimit -n {DESCRIPTORS} && exec "$@"', "sh"]
    command = [*COMMAND, "gateway", "--config", str(config), "--transport", "http", "--address", "127.0.0.1:0"]
    with (config.parent / "gateway.log").open("w") as log:
        process = await asyncio.create_subprocess_exec(
            *limited,
            *command,
            stdout=subprocess.PIPE,
            stderr=log,
        )
        try:
            assert process.stdout is not None
            started = (await process.stdout.readline()).decode()
            if not started:
                code = await process.wait()
                pytest.fail(f"exit code {code}: {(config.parent / 'gateway.log').read_text()}")
            yield started.split()[-1]
            process.terminate()
            assert await process.wait() == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


def _connected(url: str, stack: ExitStack) -> socket.socket:
    parts = urlsplit(url)
    assert parts.port is not None
    return stack.enter_context(socket.create_connection(("127.0.0.1", parts.port), timeout=120))


async def _is_served(url: str) -> bool:
    async with httpx2.AsyncClient(timeout=120) as client:
        answer = await client.post(url, **modern("tools/call", LIST))
    return answer.status_code == 200


async def test_more_idle_connections_than_descriptors_lock_nobody_out_and_fill_no_log(tmp_path: Path) -> None:
    """Some sent nothing, some a part of a request, some have been served: unused ones are closed for new ones."""
    async with _running(write_config(tmp_path, {})) as url:
        with ExitStack() as stack:
            for number in range(MANY):
                connection = _connected(url, stack)
                if number % 2:
                    connection.sendall(b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Le")
                if number % 50 == 0:
                    assert await _is_served(url)
            assert await _is_served(url)
        assert await _is_served(url)
    log = (tmp_path / "gateway.log").read_text()
    assert log.count("the limit of open connections (") == 1
    assert (len(log.splitlines()) < LOG_LINES, "Traceback" in log) == (True, False), log


async def test_a_gateway_that_can_accept_nothing_logs_it_once_and_serves_again(tmp_path: Path) -> None:
    """Its servers hold the descriptors that connections would need."""
    servers = {f"s{number}": bad() for number in range(6)}
    async with _running(write_config(tmp_path, servers)) as url:
        while not await _is_served(url):
            pass
        with ExitStack() as stack:
            for _ in range(MANY):
                _connected(url, stack)
            while "no connection can be accepted" not in (tmp_path / "gateway.log").read_text():  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert await _is_served(url)
    log = (tmp_path / "gateway.log").read_text()
    assert log.count("no connection can be accepted") == 1
    assert (len(log.splitlines()) < LOG_LINES, "Traceback" in log) == (True, False), log


async def _listening(application: object) -> tuple[uvicorn.Server, asyncio.Task[None], int]:
    """Serve an application with the gateway's own connections, in this process."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(application, http=HttpConnection, ws="none", log_config=None, lifespan="off")  # type: ignore[arg-type]
    server = uvicorn.Server(config)
    return server, asyncio.create_task(server.serve(sockets=[listener])), listener.getsockname()[1]


@asynccontextmanager
async def _connections(application: object) -> AsyncIterator[int]:
    server, serving, port = await _listening(application)
    try:
        yield port
    finally:
        server.should_exit = True
        await serving


async def _length(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the number of bytes of a body."""
    body = await Request(scope, receive).body()
    await PlainTextResponse(str(len(body)))(scope, receive, send)


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"", b"408"),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Le", b"408"),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf", b"408"),
    ],
    ids=["nothing", "a part of the head", "a part of the body"],
)
async def test_a_connection_on_which_no_whole_request_arrives_ends(
    sent: bytes, said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an answer that says so."""
    monkeypatch.setattr(http_connections, "HEAD_SECONDS", 0.2)
    monkeypatch.setattr(http_connections, "BODY_SECONDS", 0.2)
    async with _connections(_length) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        answer = await reader.read()
        assert said in answer.partition(b"\r\n")[0]
        writer.close()


async def test_a_slow_upload_is_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes many times as long as the pause that is allowed between two bytes, and longer than a head may take."""
    monkeypatch.setattr(http_connections, "HEAD_SECONDS", 0.5)
    monkeypatch.setattr(http_connections, "BODY_SECONDS", 30)
    async with _connections(_length) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 40\r\n\r\n")
        for _ in range(40):
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.03)
        assert (await reader.read()).endswith(b"40")
        writer.close()


async def test_an_answer_that_takes_its_time_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a connection that is kept serves another request afterwards."""
    monkeypatch.setattr(http_connections, "HEAD_SECONDS", 0.2)
    monkeypatch.setattr(http_connections, "BODY_SECONDS", 0.2)

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.sleep(0.6)
        await _length(scope, receive, send)

    async with _connections(slow) as port, httpx2.AsyncClient(timeout=120) as client:
        answers = [await client.post(f"http://127.0.0.1:{port}/", content=b"12345") for _ in range(2)]
    assert [answer.text for answer in answers] == ["5", "5"]
