"""Sessions that a server has lost and reports in its own words: they are opened again, and no call is repeated."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from callability.gateway.upstream import listing
from support.commands import callability
from support.edits import edit
from support.gateway_in_process import client_of
from support.gateways import bad, call, text_of, write_config
from support.responses import http
from support.upstreams.bad_http import Answer, BadHttp, Step, content, refusal, reply, result
from support.waiting import becomes, loads

QUICK = {"reopen_seconds": 0.1}
TIRED = 3
"""Calls that fail before the gateway looks at the session."""
ERROR = json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": -32603, "message": "lost"}}).encode()
TWICE = 2


class Forgetful(BadHttp):
    """Loses its session when a test says so, and then answers everything with `step` until another one is opened."""

    def __init__(self, step: Answer) -> None:
        super().__init__(session="one", answers={"work": self._work})
        self.lost = False
        self.broken_list = False
        self._step = step
        self.opening = self._opened
        self.listing = self._listed

    @property
    def openings(self) -> int:
        """How often a session was opened."""
        return self.requested_methods.count("initialize")

    @property
    def listings(self) -> int:
        """How often the tools were listed."""
        return self.requested_methods.count("tools/list")

    def _refuse(self, request: dict[str, Any]) -> Step:
        return self._step(request) if callable(self._step) else self._step

    def _work(self, request: dict[str, Any]) -> Step:
        return self._refuse(request) if self.lost else content(request)

    def _listed(self, request: dict[str, Any]) -> Step:
        if self.lost and self.broken_list:
            return self._refuse(request)
        return reply(result(request, {"tools": [{"name": "work", "inputSchema": {"type": "object"}}]}))

    def _opened(self, request: dict[str, Any]) -> Step:
        if request["method"] == "server/discover":
            return refusal(request, "no such method")
        self.lost = False
        about = {"name": "forgetful", "version": "1"}
        value = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": about}
        return reply(result(request, value), extra="Mcp-Session-Id: one\r\n")


def _works(client: Client, name: str) -> Callable[[], Any]:
    async def look() -> bool:
        return not (await call(client, name)).is_error

    return look


_WORDS: dict[str, Answer] = {
    "500 and an error": reply(ERROR, status="500 Internal Server Error"),
    "500": reply(b"oops", status="500 Internal Server Error", kind="text/plain"),
    "503": reply(b"", status="503 Service Unavailable"),
    "200 and an error": lambda request: refusal(request, "session expired"),
    "200 and a page": reply(b"<html>", kind="text/html"),
    "409": reply(b"", status="409 Conflict"),
    "silence": "hang",
}


@pytest.mark.parametrize("step", _WORDS.values(), ids=_WORDS)
def test_a_session_that_is_lost_is_opened_again_whatever_the_server_says_of_it(step: Answer, tmp_path: Path) -> None:
    """After three calls that failed and a listing that failed too; each call is sent once."""

    async def story() -> None:
        server = Forgetful(step)
        async with server.listening():
            deadlines = QUICK | ({"call_seconds": 0.5, "open_seconds": 2} if step == "hang" else {})
            async with client_of(write_config(tmp_path, {"it": http(server)}, deadlines=deadlines)) as client:
                assert await _works(client, "it:work")()
                server.lost = server.broken_list = True
                failed = [await call(client, "it:work") for _ in range(TIRED)]
                assert all(answer.is_error for answer in failed)
                await becomes(_is(lambda: server.openings), TWICE)
                await becomes(loads(client, "it"), [("connected", "available")])
                assert await _works(client, "it:work")()
                assert server.calls == 1 + TIRED + 1
                assert server.listings == 1 + 1 + 1

    asyncio.run(story())


def test_calls_that_agents_give_up_count_as_failed(tmp_path: Path) -> None:
    """Their patience may be shorter than the gateway's."""

    async def story() -> None:
        server = Forgetful("hang")
        async with server.listening():
            deadlines = QUICK | {"call_seconds": 3600, "open_seconds": 2}
            async with client_of(write_config(tmp_path, {"it": http(server)}, deadlines=deadlines)) as client:
                assert await _works(client, "it:work")()
                server.lost = server.broken_list = True
                for count in range(TIRED):
                    waiting = asyncio.create_task(call(client, "it:work"))
                    await becomes(_is(lambda: server.calls), 1 + count + 1)
                    waiting.cancel()
                await becomes(_is(lambda: server.openings), TWICE)
                await becomes(_works(client, "it:work"), True)

    asyncio.run(story())


def _is(look: Callable[[], int]) -> Callable[[], Any]:
    async def seen() -> int:
        return look()

    return seen


def test_a_server_that_only_refuses_calls_stays_connected(tmp_path: Path) -> None:
    """After three refused calls the tools are listed once, and two calls beside one that succeeds are not enough."""

    async def story() -> None:
        server = Forgetful(lambda request: refusal(request, "no"))
        async with server.listening():
            config = write_config(tmp_path, {"it": http(server)}, deadlines=QUICK)
            async with client_of(config) as client:
                await becomes(loads(client, "it"), [("connected", "available")])
                for lost in (True, True, False, True, True):
                    server.lost = lost
                    assert (await call(client, "it:work")).is_error == lost
                assert server.listings == 1
                await call(client, "it:work")
                await becomes(_is(lambda: server.listings), TWICE)
                server.lost = False
                assert await _works(client, "it:work")()
                assert (server.openings, server.listings) == (1, TWICE)

    asyncio.run(story())


def test_a_child_that_has_lost_its_session_is_replaced(tmp_path: Path) -> None:
    """As one that passes calls on to a remote server."""

    async def story() -> None:
        async with client_of(write_config(tmp_path, {"it": bad("lists all")}, deadlines=QUICK)) as client:
            first = text_of(await call(client, "it:pid"))
            assert (await call(client, "it:lose the session")).is_error
            for _ in range(TIRED - 1):
                assert (await call(client, "it:pid")).is_error
            await becomes(_works(client, "it:pid"), True)
            assert text_of(await call(client, "it:pid")) != first

    asyncio.run(story())


def test_servers_enable_reconnects_a_connected_server_that_fails(tmp_path: Path) -> None:
    """One whose last call succeeded keeps its connection, and so do both if another entry is edited."""

    async def story() -> None:
        failing, fine = Forgetful(reply(ERROR, status="500 Internal Server Error")), Forgetful("eof")
        async with failing.listening(), fine.listening():
            other = {"command": "no-such-command", "enabled": False}
            servers = {"it": http(failing), "fine": http(fine), "other": other}
            config = write_config(tmp_path, servers, deadlines=QUICK)
            async with client_of(config) as client:
                assert await _works(client, "fine:work")()
                failing.lost = True
                assert not await _works(client, "it:work")()
                edit(config, servers={"other": {"enabled": True}})
                await becomes(loads(client, "other"), [("failed", "permanent")])
                assert (failing.openings, fine.openings) == (1, 1)
                done = await asyncio.to_thread(callability, "servers", "enable", "it", "--config", str(config))
                assert done.returncode == 0, done.stderr
                await becomes(_is(lambda: failing.openings), TWICE)
                await becomes(_works(client, "it:work"), True)
                assert (failing.openings, fine.openings) == (TWICE, 1)

    asyncio.run(story())


def test_tools_are_not_kept_for_ever_without_a_listing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that is busy whenever its tools are listed is opened again after ten minutes."""
    monkeypatch.setattr(listing, "KEPT_SECONDS", 0.5)

    async def story() -> None:
        server = Forgetful(reply(b"", status="503 Service Unavailable"))
        async with server.listening():
            config = write_config(tmp_path, {"it": http(server)}, deadlines=QUICK | {"refresh_seconds": 0.2})
            async with client_of(config) as client:
                await becomes(loads(client, "it"), [("connected", "available")])
                server.lost = server.broken_list = True
                await becomes(_is(lambda: server.openings), TWICE)
                await becomes(loads(client, "it"), [("connected", "available")])

    asyncio.run(story())
