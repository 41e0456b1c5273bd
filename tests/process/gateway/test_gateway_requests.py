"""Requests in progress over HTTP: no agent can use up the connections of the others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from callability.gateway.serving import http_sessions
from support.gateway_in_process import http_gateway
from support.gateway_requests import ACCEPT, answer_in, initialized, legacy, modern
from support.gateways import agents_of, held_back, shelf, token_of, write_config
from support.waiting import becomes

pytestmark = pytest.mark.anyio

LIST = {"name": "upstream_servers", "arguments": {}}
CALL = {"name": "call_tool", "arguments": {"name": "it:read"}}
READ = {"name": "read", "description": "Reads a file."}
CANCELLED: dict[str, Any] = {"method": "notifications/cancelled", "params": {"requestId": 7}}
ANSWER = {"id": 1, "result": {"action": "accept"}}
LISTEN = {"notifications": {"toolsListChanged": True}}
UNLIMITED = httpx2.Limits(max_connections=None)


@pytest.fixture
def anyio_backend() -> str:
    """The gateway runs on asyncio."""
    return "asyncio"


def _of(agent: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token_of(agent)}"}


async def _listening(client: httpx2.AsyncClient, url: str, count: int, **headers: str) -> list[AsyncExitStack]:
    """Open streams, and return what ends each of them."""
    opened = []
    for _ in range(count):
        opened.append(stack := AsyncExitStack())
        request = modern("subscriptions/listen", LISTEN, **headers)
        stream = await stack.enter_async_context(client.stream("POST", url, **request))
        assert stream.status_code == 200
    return opened


@asynccontextmanager
async def _called(client: httpx2.AsyncClient, url: str, request: dict[str, Any]) -> AsyncIterator[httpx2.Response]:
    """Send a call again until it has a place: the request before it counts a little longer than its client sees."""
    while True:
        async with client.stream("POST", url, **request) as answer:
            if answer.status_code == 200:
                yield answer
                return


async def test_an_agent_at_its_limit_of_requests_is_refused_and_others_are_served(tmp_path: Path) -> None:
    """The streams that an agent keeps open count; ending one makes room."""
    config = write_config(tmp_path, {}, agents=agents_of({"a": [], "b": []}), http={"requests_per_agent": 3})
    with http_gateway(config) as url:
        async with httpx2.AsyncClient(timeout=120, limits=UNLIMITED) as client:
            first, *rest = await _listening(client, url, 3, **_of("a"))
            refused = [await client.post(url, **modern("tools/call", LIST, **_of("a"))) for _ in range(2)]
            refused.append(await client.get(url, headers=_of("a")))
            words = (
                "The request was not carried out: agent `a` has 3 requests in progress, which is the limit."
                " End a stream, or wait for an answer."
            )
            error = {"jsonrpc": "2.0", "error": {"code": -32603, "message": words}}
            answers = [(answer.status_code, answer.json()) for answer in refused]
            assert answers == [(429, {**error, "id": request}) for request in (7, 7, None)]
            assert (await client.post(url, **modern("tools/call", LIST, **_of("b")))).status_code == 200
            await first.aclose()

            async def served() -> int:
                return (await client.post(url, **modern("tools/call", LIST, **_of("a")))).status_code

            await becomes(served, 200)
            for each in rest:
                await each.aclose()
    assert (tmp_path / "gateway.log").read_text().count("agent `a` has 3 requests in progress") == 1


async def test_a_large_request_waits_for_those_of_its_agent_and_for_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is read takes far more than its bytes: many of one agent at once would stop the answers to others."""
    monkeypatch.setattr(http_sessions, "LARGE_BYTES_AT_ONCE", 150_000)
    held = held_back(tmp_path, shelf(tmp_path, "it", READ))
    config = write_config(tmp_path, {"it": held}, agents=agents_of({"a": ["it"], "b": ["it"]}))

    def call(name: str, size: int, agent: str) -> dict[str, Any]:
        arguments = {"name": name, "arguments": {"text": "x" * size}}
        return modern("tools/call", {"name": "call_tool", "arguments": arguments}, **_of(agent))

    with http_gateway(config) as url:
        async with httpx2.AsyncClient(timeout=120, limits=UNLIMITED) as client:

            async def answer(*of: Any) -> str:
                return (await client.post(url, **call(*of))).text

            first = asyncio.create_task(answer("it:read", 100_000, "a"))
            # It waits for its server.
            for of in [("no:tool", 100_000, "b"), ("no:tool", 0, "a")] * 10:
                assert "there is no tool" in await answer(*of)
            second = asyncio.create_task(answer("no:tool", 100_000, "a"))
            # More than the limit is answered too, if it is alone.
            for of in [("no:tool", 200_000, "b"), ("no:tool", 0, "a")] * 10:
                assert "there is no tool" in await answer(*of)
            assert not first.done()
            assert not second.done()
            (tmp_path / "released").touch()
            assert "there is no tool" in await second
            assert "there is no tool" not in await first


async def test_an_agent_has_at_most_half_of_the_connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the config says."""
    monkeypatch.setattr(http_sessions, "most_connections", lambda: 4)
    config = write_config(tmp_path, {}, agents=agents_of({"a": []}), http={"requests_per_agent": 10_000})
    with http_gateway(config) as url:
        async with httpx2.AsyncClient(timeout=120, limits=UNLIMITED) as client:
            streams = await _listening(client, url, 2, **_of("a"))
            answer: dict[str, Any] = (await client.post(url, **modern("tools/call", LIST, **_of("a")))).json()
            assert "agent `a` has 2 requests in progress" in answer["error"]["message"]
            for each in streams:
                await each.aclose()
    log = (tmp_path / "gateway.log").read_text()
    assert "in progress, which is the limit: half of the 4 connections that the limit of open files allows" in log
    assert "http.requests_per_agent" not in log


async def test_an_agent_at_its_limit_can_cancel_a_call_and_end_a_session(tmp_path: Path) -> None:
    """And its user can answer a dialog: what is no request would free a place, and is not refused."""
    held = held_back(tmp_path, shelf(tmp_path, "it", READ))
    config = write_config(tmp_path, {"it": held}, agents=agents_of({"a": ["it"]}), http={"requests_per_agent": 1})
    with http_gateway(config) as url:
        async with httpx2.AsyncClient(timeout=120, limits=UNLIMITED) as client:
            session = (await initialized(client, url, **_of("a"))).headers["mcp-session-id"]
            request = legacy("tools/call", CALL, session, **_of("a"))
            other = {**request, "json": {**request["json"], "id": 8, "method": "tools/list", "params": {}}}

            async def other_status() -> int:
                return (await client.post(url, **other)).status_code

            # The head of the answer to a call comes at once, and its end with the outcome.
            async with _called(client, url, request) as called:
                assert await other_status() == 429
                for body in (ANSWER, CANCELLED):
                    said = await client.post(url, **{**request, "json": {"jsonrpc": "2.0", **body}})
                    assert said.status_code == 202
                await called.aread()
            await becomes(other_status, 200)
            async with _called(client, url, request) as called:
                assert await other_status() == 429
                assert (await client.delete(url, headers=request["headers"])).status_code == 200
                await called.aread()
            (tmp_path / "released").touch()


async def test_the_messages_of_an_agent_at_its_limit_that_are_read_are_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise bodies that never end would take the connections of the others."""
    monkeypatch.setattr(http_sessions, "RESERVE", 2)
    config = write_config(tmp_path, {}, agents=agents_of({"a": []}), http={"requests_per_agent": 1})
    with http_gateway(config) as url:
        async with httpx2.AsyncClient(timeout=120, limits=UNLIMITED) as client:
            [stream] = await _listening(client, url, 1, **_of("a"))
            ended = asyncio.Event()

            async def endless() -> AsyncIterator[bytes]:
                yield b"{"
                await ended.wait()

            posts = [
                asyncio.create_task(client.post(url, content=endless(), headers={**ACCEPT, **_of("a")}))
                for _ in range(4)
            ]

            async def message() -> int:
                request = modern("notifications/cancelled", CANCELLED["params"], **_of("a"))
                del request["json"]["id"]
                return (await client.post(url, **request)).status_code

            await becomes(message, 429)
            ended.set()
            # Those beyond the reserve are refused, or their connection is closed, before their body is read.
            await asyncio.gather(*posts, return_exceptions=True)
            await becomes(message, 202)
            await stream.aclose()


async def test_clients_without_a_token_do_not_share_a_limit_of_requests(tmp_path: Path) -> None:
    """Otherwise one of them could lock out the others with fewer requests than there are connections."""
    with http_gateway(write_config(tmp_path, {}, http={"requests_per_agent": 1})) as url:
        async with httpx2.AsyncClient(timeout=120, limits=UNLIMITED) as client:
            streams = await _listening(client, url, 3)
            assert (await client.post(url, **modern("tools/call", LIST))).status_code == 200
            for each in streams:
                await each.aclose()


async def test_no_request_gets_the_answer_of_another_with_its_id(tmp_path: Path) -> None:
    """The library finds the answer of a session by the text of the id, so that an id in progress is refused."""
    tools = [READ, {"name": "write", "description": "Writes a file."}]
    held = held_back(tmp_path, shelf(tmp_path, "it", *tools))
    with http_gateway(write_config(tmp_path, {"it": held})) as url:
        async with httpx2.AsyncClient(timeout=120) as client:
            session = (await initialized(client, url)).headers["mcp-session-id"]
            elsewhere = (await initialized(client, url)).headers["mcp-session-id"]
            request = legacy("tools/call", CALL, session)
            other = legacy("tools/call", {"name": "call_tool", "arguments": {"name": "it:write"}}, session)
            async with client.stream("POST", url, **request) as first:
                for number in (7, "7"):
                    refused = await client.post(url, **{**other, "json": {**other["json"], "id": number}})
                    answer = refused.json()
                    assert (refused.status_code, answer["id"], answer["error"]["code"]) == (400, number, -32600)
                    assert "is in progress in this session" in answer["error"]["message"]
                listed = await client.post(url, **legacy("tools/list", {}, elsewhere))
                assert "tools" in answer_in(listed.text)["result"]
                (tmp_path / "released").touch()
                await first.aread()
                assert "read" in json.dumps(answer_in(first.text))
            again = answer_in((await client.post(url, **other)).text)
            assert "write" in json.dumps(again["result"])


@pytest.mark.parametrize("number", [None, 1.5, True, {}, [], [1]])
async def test_a_request_with_an_id_that_is_none_is_answered(tmp_path: Path, number: Any) -> None:
    """In both revisions: a client that gets nothing waits for as long as it can."""
    with http_gateway(write_config(tmp_path, {})) as url:
        async with httpx2.AsyncClient(timeout=120) as client:
            session = (await initialized(client, url)).headers["mcp-session-id"]
            for request in (modern("tools/call", LIST), legacy("tools/call", LIST, session)):
                answer = await client.post(url, **{**request, "json": {**request["json"], "id": number}})
                assert (answer.status_code, answer.json()["id"], answer.json()["error"]["code"]) == (400, None, -32600)


async def test_a_stream_that_begins_after_an_event_is_a_new_one(tmp_path: Path) -> None:
    """No event is kept: a client that has lost its stream gets a new one, and not an error of the server."""
    with http_gateway(write_config(tmp_path, {})) as url:
        async with httpx2.AsyncClient(timeout=120) as client:
            session = (await initialized(client, url)).headers["mcp-session-id"]
            headers = {"Accept": "text/event-stream", "Mcp-Session-Id": session, "Last-Event-ID": "12"}
            async with client.stream("GET", url, headers=headers) as stream:
                assert stream.status_code == 200
