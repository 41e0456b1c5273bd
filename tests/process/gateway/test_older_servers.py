"""Servers of earlier revisions that do not survive, or do not answer, the first request of the newer one (spec B)."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from support.checkout import UPSTREAMS
from support.gateway_in_process import client_of
from support.gateways import call, text_of, write_config
from support.responses import http, response
from support.upstreams.bad_http import BadHttp, Cut, Step, reply, result
from support.waiting import becomes, loads

PROBE = "server/discover"
FIRST = ["start", PROBE]
SHORT = {"open_seconds": 6.0}
"""Long enough to start a process twice; a third of it is waited for the answer to the first request."""
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n{"
WITH_A_WAY = response(403, extra='WWW-Authenticate: Bearer error="invalid_token"\r\n')


def _older(directory: Path, how: str, *before: str) -> dict[str, Any]:
    command = [*before, sys.executable, str(UPSTREAMS / "older_stdio.py"), how, str(directory / "record")]
    return {"command": command[0], "args": command[1:]}


def _record(directory: Path) -> list[str]:
    return (directory / "record").read_text().split()


async def _pid(client: Client) -> str:
    return text_of(await call(client, "it:pid"))


@pytest.mark.parametrize("how", ["exits", "says why and exits", "refuses it and exits", "closes"])
def test_a_server_that_ends_at_the_newer_handshake_is_started_again_for_the_older_one(how: str, tmp_path: Path) -> None:
    """As every server that is built with the Rust SDK of 2025."""

    async def story() -> None:
        async with client_of(write_config(tmp_path, {"it": _older(tmp_path, how)})) as client:
            assert (await _pid(client)).isdecimal()
            assert await loads(client, "it")() == [("connected", "available")]

    asyncio.run(story())
    assert _record(tmp_path) == [*FIRST, "start", "initialize", "tools/list", "tools/call"]


def test_a_server_that_is_silent_at_the_newer_handshake_gets_the_older_one_in_the_same_process(tmp_path: Path) -> None:
    """Although the time of the opening is no longer than what the SDK waits for the answer."""

    async def story() -> None:
        config = write_config(tmp_path, {"it": _older(tmp_path, "is silent")}, deadlines=SHORT)
        async with client_of(config) as client:
            assert (await _pid(client)).isdecimal()

    asyncio.run(story())
    assert _record(tmp_path) == [*FIRST, "initialize", "tools/list", "tools/call"]


@pytest.mark.parametrize("server", ["good_stdio.py", "older_stdio.py"], ids=["newer", "older"])
def test_a_server_that_starts_slowly_loses_nothing(server: str, tmp_path: Path) -> None:
    """It finds both handshakes when it begins to read, and is started once."""
    given = [str(UPSTREAMS / server), *(["refuses it", str(tmp_path / "record")] if server == "older_stdio.py" else [])]
    late = {"command": sys.executable, "args": [str(UPSTREAMS / "late.py"), sys.executable, *given]}
    config = write_config(tmp_path, {"it": late}, deadlines={"open_seconds": 12})

    async def story() -> None:
        async with client_of(config) as client:
            await becomes(loads(client, "it"), [("connected", "available")])

    asyncio.run(story())
    assert "did not" not in (tmp_path / "gateway.log").read_text()


@pytest.mark.parametrize("how", ["exits", "is silent"])
def test_the_handshake_that_worked_is_remembered_until_an_opening_fails(how: str, tmp_path: Path) -> None:
    """A child that ends is followed by one that gets it at once; after a failed opening both are tried."""
    off = tmp_path / "record.off"
    deadlines = SHORT | {"reopen_seconds": 0.1}
    served = ["initialize", "tools/list"]
    tried = [*FIRST, *(["start"] if how == "exits" else []), *served]

    async def story() -> None:
        async with client_of(write_config(tmp_path, {"it": _older(tmp_path, how)}, deadlines=deadlines)) as client:
            await becomes(loads(client, "it"), [("connected", "available")])
            await call(client, "it:exit")
            await becomes(loads(client, "it"), [("connected", "available")])
            assert _record(tmp_path) == [*tried, "tools/call", "start", *served]
            off.touch()
            await call(client, "it:exit")
            await becomes(loads(client, "it"), [("failed", "permanent")])
            off.unlink()
            (tmp_path / "record").unlink()
            # Calls open it when a pause is over.
            await becomes(lambda: _answers(client), True)
            assert _record(tmp_path)[: len(tried)] == tried

    asyncio.run(story())


@pytest.mark.parametrize("how", ["exits", "is silent"])
def test_a_server_of_the_catalog_is_opened_as_any_other(how: str, tmp_path: Path) -> None:
    """What worked is remembered from one enable to the next."""

    async def story() -> None:
        config = write_config(tmp_path, {}, catalog={"it": _older(tmp_path, how)}, deadlines=SHORT)
        async with client_of(config) as client:
            for _ in range(2):
                enabled = await client.call_tool("enable_server", {"id": "it"})
                assert not enabled.is_error, text_of(enabled)
                assert (await _pid(client)).isdecimal()
                await client.call_tool("disable_server", {"id": "it"})

    asyncio.run(story())
    served = ["initialize", "tools/list", "tools/call"]
    assert _record(tmp_path) == [*FIRST, *(["start"] if how == "exits" else []), *served, "start", *served]


async def _answers(client: Client) -> bool:
    return (await _pid(client)).isdecimal()


_UNANSWERED: dict[str, Step] = {
    "silence": "hang",
    "end": "eof",
    "reset": "reset",
    "end of a stream": Cut(STREAM, "eof"),
    "end in a body": Cut(HEAD, "eof"),
    "stop in a body": Cut(HEAD, "hang"),
    "a body without an end": Cut(HEAD, "trickle"),
    "a stream without an end": Cut(STREAM, "trickle"),
    "an open stream without an answer": Cut(STREAM + b"id: 1\ndata:\n\n", "hang"),
    "an answer to no request": reply(b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32601, "message": "no"}}'),
    "an answer to another request": reply(b'{"jsonrpc": "2.0", "id": 4711, "result": {}}'),
    "403": response(403),
}


@pytest.mark.parametrize("first", _UNANSWERED.values(), ids=_UNANSWERED)
def test_an_http_server_that_does_not_answer_the_newer_handshake_gets_the_older_one(
    first: Step, tmp_path: Path
) -> None:
    """Once, and the answer to it decides; the next opening begins with it."""

    async def story() -> None:
        async with BadHttp(session="one").listening() as server:
            server.opening = _opening(first)
            deadlines = SHORT | {"reopen_seconds": 0.1}
            async with client_of(write_config(tmp_path, {"it": http(server)}, deadlines=deadlines)) as client:
                assert not (await call(client, "it:pid")).is_error
                assert await loads(client, "it")() == [("connected", "available")]
                server.session = "two"
                server.opening = None
                await call(client, "it:pid")
                await becomes(loads(client, "it"), [("connected", "available")])
            assert [method for method in server.requested_methods if method in (PROBE, "initialize")] == [
                PROBE,
                "initialize",
                "initialize",
            ]

    asyncio.run(story())


def _opening(first: Step) -> Callable[[dict[str, Any]], Step]:
    """Return the answers to the two handshakes: one that is given, and a good one."""

    def answer(request: dict[str, Any]) -> Step:
        if request["method"] == PROBE:
            return first
        about = {"name": "older", "version": "1"}
        value = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": about}
        return reply(result(request, value), extra="Mcp-Session-Id: one\r\n")

    return answer


@pytest.mark.parametrize(
    ("first", "status"),
    [(response(401), "denied"), (WITH_A_WAY, "denied"), (response(429, extra="Retry-After: 86400\r\n"), "transient")],
    ids=["401", "403 with WWW-Authenticate", "429"],
)
def test_a_refusal_that_says_who_is_refused_or_when_to_come_again_stands(
    first: bytes, status: str, tmp_path: Path
) -> None:
    """The older handshake does not follow."""

    async def story() -> None:
        async with BadHttp().listening() as server:
            server.opening = _opening(first)
            async with client_of(write_config(tmp_path, {"it": http(server)})) as client:
                await becomes(loads(client, "it"), [("failed", status)])
            assert server.requested_methods == [PROBE]

    asyncio.run(story())


@pytest.mark.parametrize("second", [response(403), "hang"], ids=["denied", "silence"])
def test_a_denial_is_one_unless_the_older_handshake_is_answered(second: Step, tmp_path: Path) -> None:
    """The second one decides, and there is no third."""

    async def story() -> None:
        async with BadHttp().listening() as server:
            server.opening = lambda request: response(403) if request["method"] == PROBE else second
            async with client_of(write_config(tmp_path, {"it": http(server)}, deadlines=SHORT)) as client:
                await becomes(loads(client, "it"), [("failed", "denied")])
            assert server.requested_methods == [PROBE, "initialize"]

    asyncio.run(story())
