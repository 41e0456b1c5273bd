"""How a gateway over HTTP ends: no answer is lost or truncated within the grace time, and nothing idle uses it up."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from support.checkout import UPSTREAMS
from support.gateway_requests import ACCEPT, LEGACY, answer_in, initialized, legacy, modern
from support.gateways import write_config
from support.running import COMMAND, starting_commands
from support.upstreams.gate import SIZE

pytestmark = pytest.mark.anyio

GATE = UPSTREAMS / "gate.py"
CALLS = 8


@pytest.fixture
def anyio_backend() -> str:
    """The gateway runs on asyncio."""
    return "asyncio"


@dataclass(frozen=True, slots=True)
class Running:
    """A gateway in front of a server whose calls wait."""

    process: asyncio.subprocess.Process
    url: str
    directory: Path

    @property
    def log(self) -> str:
        """What the gateway has logged."""
        return (self.directory / "gateway.log").read_text()

    def call(self, number: int) -> dict[str, Any]:
        """Return the parameters of a call that waits until `release`."""
        arguments = {"waits": str(self.directory / f"waits-{number}"), "until": str(self.directory / "released")}
        return {"name": "call_tool", "arguments": {"name": "gate:pass", "arguments": arguments}}

    async def all_wait(self, count: int) -> None:
        """Return when a number of calls have reached the server."""
        while not all((self.directory / f"waits-{number}").exists() for number in range(count)):  # noqa: ASYNC110
            await asyncio.sleep(0.02)

    async def begins_to_end(self) -> None:
        """Return when the gateway accepts no more connections."""
        parts = urlsplit(self.url)
        while True:
            try:
                _, writer = await asyncio.open_connection(parts.hostname, parts.port)
            except ConnectionRefusedError:
                return
            writer.close()
            await asyncio.sleep(0.02)

    def release(self) -> None:
        """Let the calls that wait return."""
        (self.directory / "released").touch()


@asynccontextmanager
async def _running(directory: Path) -> AsyncIterator[Running]:
    config = write_config(directory, {"gate": {"command": sys.executable, "args": [str(GATE)]}})
    command = [*COMMAND, "gateway", "--config", str(config), "--transport", "http", "--address", "127.0.0.1:0"]
    with (directory / "gateway.log").open("w") as log:
        with starting_commands():
            process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=log)
        try:
            assert process.stdout is not None
            line = (await process.stdout.readline()).decode()
            yield Running(process, line.split()[-1], directory)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


@asynccontextmanager
async def _client() -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(timeout=120, limits=httpx2.Limits(max_connections=100)) as client:
        yield client


async def test_calls_in_flight_are_answered_whole_when_the_gateway_ends(tmp_path: Path) -> None:
    """In both revisions, each with an answer that takes many packets; the exit code is 0."""
    async with _running(tmp_path) as gateway, _client() as client:
        session = (await initialized(client, gateway.url)).headers["mcp-session-id"]
        requests = [modern("tools/call", gateway.call(number)) for number in range(CALLS)]
        for number in range(CALLS, 2 * CALLS):
            request = legacy("tools/call", gateway.call(number), session)
            request["json"]["id"] = number
            requests.append(request)
        calls = [asyncio.create_task(client.post(gateway.url, **request)) for request in requests]
        await gateway.all_wait(len(calls))
        gateway.process.terminate()
        await gateway.begins_to_end()
        gateway.release()
        answers = [answer_in((await call).text) for call in calls]
        assert [len(answer["result"]["content"][0]["text"]) for answer in answers] == [SIZE] * len(calls)
        assert await gateway.process.wait() == 0
    assert "cut off" not in gateway.log
    assert "Traceback" not in gateway.log


async def test_idle_connections_and_streams_end_properly_and_use_no_grace_time(tmp_path: Path) -> None:
    """A stream of announcements in each revision, a connection that is kept, and one that never sent anything."""
    async with _running(tmp_path) as gateway, _client() as client:
        session = (await initialized(client, gateway.url)).headers["mcp-session-id"]
        parts = urlsplit(gateway.url)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        listen = modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        of_session = {**ACCEPT, "MCP-Protocol-Version": LEGACY, "Mcp-Session-Id": session}
        async with (
            client.stream("GET", gateway.url, headers=of_session) as old,
            client.stream("POST", gateway.url, **listen) as new,
        ):
            assert (old.status_code, new.status_code) == (200, 200)
            lines = new.aiter_lines()
            acknowledged = [await anext(lines) for _ in range(2)]
            assert "acknowledged" in acknowledged[1]
            gateway.process.terminate()
            # A body that is cut off raises an error.
            assert await old.aread() == b""
            rest = [line async for line in lines if line.startswith("data: ")]
            assert json.loads(rest[-1].removeprefix("data: "))["result"] is not None
        assert await reader.read() == b""
        writer.close()
        assert await gateway.process.wait() == 0
    assert "cut off" not in gateway.log
    assert "Traceback" not in gateway.log


@pytest.mark.parametrize("again", [False, True], ids=["after the grace time", "at another signal"])
async def test_a_call_that_does_not_end_is_cut_off_by_an_answer_that_says_so(*, again: bool, tmp_path: Path) -> None:
    """Its body is complete in both revisions, and the process of the server is gone."""
    async with _running(tmp_path) as gateway, _client() as client:
        session = (await initialized(client, gateway.url)).headers["mcp-session-id"]
        requests = [modern("tools/call", gateway.call(0)), legacy("tools/call", gateway.call(1), session)]
        calls = [asyncio.create_task(client.post(gateway.url, **request)) for request in requests]
        await gateway.all_wait(len(calls))
        gateway.process.terminate()
        await gateway.begins_to_end()
        ended = asyncio.create_task(gateway.process.wait())
        while again and not ended.done():
            # `send_signal` would look for an exit first, and take the exit code away from asyncio.
            with suppress(ProcessLookupError):
                os.kill(gateway.process.pid, signal.SIGINT)
            await asyncio.wait({ended}, timeout=0.1)
        answers = [answer_in((await call).text) for call in calls]
        words = "The gateway is shutting down; the call may have been carried out."
        assert [(answer["id"], answer["error"]["message"]) for answer in answers] == [(7, words)] * 2
        assert await ended == 0
    reason = "another signal came" if again else "5 s are over"
    assert f"2 requests are cut off: {reason}" in gateway.log
    assert "Traceback" not in gateway.log


async def test_a_new_request_is_not_carried_out_while_the_gateway_ends(tmp_path: Path) -> None:
    """Its connection is refused, and the call in flight continues."""
    async with _running(tmp_path) as gateway, _client() as client:
        call = asyncio.create_task(client.post(gateway.url, **modern("tools/call", gateway.call(0))))
        await gateway.all_wait(1)
        gateway.process.terminate()
        await gateway.begins_to_end()
        with pytest.raises(httpx2.ConnectError):
            await client.post(gateway.url, **modern("tools/call", gateway.call(1)))
        gateway.release()
        assert len(answer_in((await call).text)["result"]["content"][0]["text"]) == SIZE
    assert not (tmp_path / "waits-1").exists()
