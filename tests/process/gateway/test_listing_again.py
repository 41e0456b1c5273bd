"""A listing that fails while the connection works: the server keeps its tools, and its agents notice nothing."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from callability.gateway.upstream import http_client
from callability.gateway.upstream.http_client import HttpClient
from callability.gateway.upstream.messages import EXCHANGE, Exchange
from callability.gateway.upstream.target import HttpTarget
from callability.gateway.upstream.upstream import Upstream
from support.connected_upstream import connected
from support.gateway_in_process import client_of
from support.gateways import write_config
from support.upstreams.bad_http import Answer, BadHttp, Cut, Step, refusal, reply, result
from support.waiting import SECONDS, becomes, listed

pytestmark = pytest.mark.anyio

KEPT = "keeps its tools, since they could not be listed again"
CHANGED = b'event: message\ndata: {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}\n\n'
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


@pytest.fixture
def anyio_backend() -> str:
    """The gateway runs on asyncio."""
    return "asyncio"


class Shelf:
    """The list of a server: from the second listing on it is as `later` says, if that says anything but "ok"."""

    def __init__(self, *later: Answer) -> None:
        self.names = ["one"]
        self.later = list(later)
        self.count = 0

    def __call__(self, request: dict[str, Any]) -> Step:
        """Answer a listing."""
        self.count += 1
        if self.count > 1 and self.later and (step := self.later.pop(0)) != "ok":
            return step(request) if callable(step) else step
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in self.names]
        return reply(result(request, {"tools": tools}))


def _error(code: int) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": "busy"}}).encode()


BUSY = reply(b"", status="503 Service Unavailable")
PAGE = reply(b"<html>", kind="text/html")
GONE = reply(b"", status="410 Gone")


@pytest.mark.parametrize(
    "answer",
    [
        reply(b"", status="429 Too Many Requests"),
        BUSY,
        reply(_error(-32603), status="500 Internal Server Error"),
        reply(_error(-32000), status="429 Too Many Requests"),
        reply(_error(-32000), status="503 Service Unavailable"),
        lambda request: refusal(request, "busy"),
        PAGE,
        GONE,
        "hang",
    ],
    ids=["429", "503", "error", "429 and -32000", "503 and -32000", "-32000", "page", "410", "slow"],
)
async def test_a_server_that_fails_one_timed_listing_stays_connected(tmp_path: Path, answer: Answer) -> None:
    """Its agents keep its tools, and the next listing reads what has changed."""
    server = BadHttp(session="one")
    server.listing = shelf = Shelf(answer)
    seconds = {"refresh_seconds": 0.2} | ({"open_seconds": 5} if answer == "hang" else {})
    async with server.listening():
        entry = {"url": server.url, "type": "http", "trust": "auto"}
        config = write_config(tmp_path, {"it": entry}, deadlines=seconds)
        async with client_of(config) as client:

            async def listings() -> bool:
                return shelf.count > 3

            await becomes(listings, True)
            [it] = (await listed(client))["servers"]
    assert it["state"] == "connected"
    assert server.requested_methods.count("initialize") == 1
    assert (tmp_path / "gateway.log").read_text().count(KEPT) == 1


@pytest.mark.parametrize(
    ("answer", "words"),
    [(PAGE, "answered with something that is not MCP"), (GONE, "answered with HTTP status 410")],
    ids=["page", "410"],
)
async def test_a_server_that_is_no_mcp_server_at_two_timed_listings_in_a_row_is_lost(answer: Step, words: str) -> None:
    """It is neither late nor busy, which another listing could change; a server that is, does not count."""
    server = BadHttp()
    server.listing = shelf = Shelf(answer, "ok", answer, BUSY, answer)
    async with server.listening(), _following(server.url) as it, asyncio.timeout(SECONDS):
        await it.wait_until_ended()
        assert (it.state, it.failure) == ("failed", f"`it` {words}")
    assert shelf.count == 6


async def test_the_log_says_once_that_a_server_keeps_its_tools_until_they_are_listed_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Whatever the failures."""
    caplog.set_level(logging.INFO)
    server = BadHttp()
    server.listing = shelf = Shelf(BUSY, BUSY, PAGE, "ok", BUSY, BUSY)

    async def listings() -> bool:
        return shelf.count > 7

    async with server.listening(), _following(server.url):
        await becomes(listings, True)
    assert sum(KEPT in message for message in caplog.messages) == 2


def _following(url: str) -> AbstractAsyncContextManager[Upstream]:
    """Connect an upstream whose tools are listed again and again."""
    return connected(Upstream("it", HttpTarget(url), open_seconds=SECONDS, refresh_seconds=0.1))


async def test_the_pages_of_a_list_wait_together_for_a_free_connection() -> None:
    """So a later page also finds that there is none, before the time of the listing is over."""
    requests: list[httpx2.Request] = []

    async def keep(request: httpx2.Request) -> None:
        requests.append(request)

    page = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    async with BadHttp().listening() as server, HttpClient("it", HttpTarget(server.url)) as client:
        client.event_hooks["request"].append(keep)
        EXCHANGE.set(Exchange(10, began=time.monotonic() - 8))
        await client.post(server.url, json=page)
    [limits] = [request.extensions["timeout"] for request in requests]
    assert limits["pool"] <= 1


@asynccontextmanager
async def _full(
    server: BadHttp, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, refresh_seconds: float
) -> AsyncGenerator[Upstream]:
    """Yield an upstream with two connections, of which a call has one."""
    monkeypatch.setattr(http_client, "LIMITS", httpx2.Limits(max_connections=2))
    monkeypatch.setattr(http_client, "TIMEOUT", httpx2.Timeout(connect=5, write=30, pool=2, read=None))
    caplog.set_level(logging.INFO)
    async with server.listening():
        it = Upstream(
            "it", HttpTarget(server.url), open_seconds=SECONDS, call_seconds=SECONDS, refresh_seconds=refresh_seconds
        )
        it.start()
        await it.wait_until_open()
        calls = [asyncio.create_task(it.call("hold", {}))]
        await server.hold(1)
        try:
            yield it
            await calls[0]
        finally:
            await it.close()
            await asyncio.gather(*calls, return_exceptions=True)


def _seen(caplog: pytest.LogCaptureFixture) -> Any:
    async def look() -> bool:
        return any("too many calls" in record.getMessage() for record in caplog.records)

    return look


async def test_a_server_stays_connected_while_calls_have_all_its_connections(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The calls are answered, and then the tools are listed again."""
    server = BadHttp(session="one")
    server.listing = shelf = Shelf()
    async with _full(server, caplog, monkeypatch, 0.2) as it:
        other = asyncio.create_task(it.call("hold", {}))
        await server.hold(2)
        await becomes(_seen(caplog), True)
        assert it.state == "connected"
        shelf.names = ["two"]
        server.release()
        await other

        async def names() -> list[str]:
            return [tool.name for tool in it.tools]

        await becomes(names, ["two"])
    assert server.requested_methods.count("initialize") == 1


async def test_a_change_that_is_announced_while_all_connections_are_in_use_is_read_once_one_is_free(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then it counts as unread, so that no call of a changed tool is sent unseen, and discovery does not wait."""
    server = BadHttp(session="one", answers={"change": lambda _: Cut(STREAM + CHANGED, "hang")})
    server.listing = shelf = Shelf()
    async with _full(server, caplog, monkeypatch, 86_400) as it:
        change = asyncio.create_task(it.call("change", {}))
        await becomes(_seen(caplog), True)
        assert (it.state, it.is_settled, it.is_slow_to_list) == ("connected", False, True)
        shelf.names = ["two"]
        server.release()
        async with asyncio.timeout(SECONDS):
            await it.tools_current()
        assert [tool.name for tool in it.tools] == ["two"]
        assert not it.is_slow_to_list
        change.cancel()
    assert server.requested_methods.count("initialize") == 1
