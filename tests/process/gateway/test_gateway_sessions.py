"""Sessions of MCP 2025-11-25 over HTTP: no agent can use them all up, and an unused session ends."""

from __future__ import annotations

import asyncio
import subprocess
from contextlib import AsyncExitStack
from itertools import cycle
from pathlib import Path
from typing import Any

import httpx2
import pytest

from callability.gateway import agents
from support.catalogs import agent
from support.gateway_in_process import http_gateway
from support.gateway_requests import ACCEPT, INITIALIZE, LEGACY, initialized, legacy, modern
from support.gateways import agents_of, token_of, write_config
from support.running import COMMAND, starting_commands
from support.waiting import SECONDS, becomes

pytestmark = pytest.mark.anyio

LIST = {"name": "upstream_servers", "arguments": {}}


@pytest.fixture
def anyio_backend() -> str:
    """The gateway runs on asyncio."""
    return "asyncio"


def _of(agent: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token_of(agent)}"}


async def _opened(client: httpx2.AsyncClient, url: str, count: int, **headers: str) -> list[httpx2.Response]:
    return list(await asyncio.gather(*(initialized(client, url, **headers) for _ in range(count))))


async def test_an_agent_at_its_limit_opens_no_more_sessions_and_others_are_served(tmp_path: Path) -> None:
    """Its own open sessions and MCP 2026-07-28, which has none, continue; ending a session makes room."""
    config = write_config(tmp_path, {}, agents=agents_of({"a": [], "b": []}), http={"sessions_per_agent": 3})
    with http_gateway(config) as url:
        async with httpx2.AsyncClient(timeout=120) as client:
            answers = await _opened(client, url, 10, **_of("a"))
            assert sorted(answer.status_code for answer in answers) == [200] * 3 + [429] * 7
            refused = next(answer for answer in answers if answer.status_code == 429).json()
            assert refused == {
                "jsonrpc": "2.0",
                "id": INITIALIZE["id"],
                "error": {
                    "code": -32603,
                    "message": "No session was opened: agent `a` has 3 sessions open, which is the limit. End one by"
                    " DELETE with its Mcp-Session-Id, or wait: a session without a request ends after 300 s."
                    " MCP 2026-07-28 needs no session.",
                },
            }
            sessions = [answer.headers["mcp-session-id"] for answer in answers if answer.status_code == 200]
            own = [await client.post(url, **legacy("tools/call", LIST, it, **_of("a"))) for it in sessions]
            own.append(await client.post(url, **modern("tools/call", LIST, **_of("a"))))
            other = (await initialized(client, url, **_of("b"))).headers["mcp-session-id"]
            own.append(await client.post(url, **legacy("tools/call", LIST, other, **_of("b"))))
            assert [answer.status_code for answer in own] == [200] * 5
            ending = {**ACCEPT, **_of("a"), "MCP-Protocol-Version": LEGACY, "Mcp-Session-Id": sessions[0]}
            assert (await client.delete(url, headers=ending)).status_code == 200
            assert [answer.status_code for answer in await _opened(client, url, 1, **_of("a"))] == [200]
    log = (tmp_path / "gateway.log").read_text()
    assert log.count("agent `a` has 3 sessions open") == 1


async def test_no_agent_can_use_or_end_the_session_of_another(tmp_path: Path) -> None:
    """It gets the same answer as for a session that does not exist, and the session stays counted."""
    config = write_config(tmp_path, {}, agents=agents_of({"a": [], "b": []}), http={"sessions_per_agent": 1})
    with http_gateway(config) as url:
        async with httpx2.AsyncClient(timeout=120) as client:
            session = (await initialized(client, url, **_of("a"))).headers["mcp-session-id"]
            foreign = {**ACCEPT, **_of("b"), "MCP-Protocol-Version": LEGACY, "Mcp-Session-Id": session}
            assert (await client.delete(url, headers=foreign)).status_code == 404
            assert (await client.post(url, **legacy("tools/call", LIST, session, **_of("b")))).status_code == 404
            assert (await client.post(url, **legacy("tools/call", LIST, session, **_of("a")))).status_code == 200
            assert (await initialized(client, url, **_of("a"))).status_code == 429


async def test_a_client_without_a_token_that_leaves_sessions_behind_locks_no_other_out(tmp_path: Path) -> None:
    """At the limit, the session ends that was unused for longest: not one in use, nor one that is listened on."""
    config = write_config(tmp_path, {}, http={"sessions_per_agent": 4})
    with http_gateway(config) as url:
        async with httpx2.AsyncClient(timeout=120) as client, AsyncExitStack() as stack:
            listened = await _streaming(client, url, stack)
            used, *left = [(await initialized(client, url)).headers["mcp-session-id"] for _ in range(3)]
            for _ in range(5):
                assert (await client.post(url, **legacy("tools/call", LIST, used))).status_code == 200
                newest = await initialized(client, url)
                assert newest.status_code == 200
            sessions = (listened, used, newest.headers["mcp-session-id"], *left)
            answers = [await client.post(url, **legacy("tools/call", LIST, it)) for it in sessions]
    assert [answer.status_code for answer in answers] == [200] * 3 + [404] * 2
    assert (tmp_path / "gateway.log").read_text().count("the one that was unused for longest ends") == 1


async def test_clients_without_a_token_that_only_listen_make_room_too(tmp_path: Path) -> None:
    """Otherwise as many open streams as there may be sessions would lock every other client out."""
    config = write_config(tmp_path, {}, http={"sessions_per_agent": 2})
    with http_gateway(config) as url:
        async with httpx2.AsyncClient(timeout=120) as client, AsyncExitStack() as stack:
            first, second = [await _streaming(client, url, stack) for _ in range(2)]
            third = (await initialized(client, url)).headers["mcp-session-id"]
            answers = [await client.post(url, **legacy("tools/call", LIST, it)) for it in (first, second, third)]
    assert [answer.status_code for answer in answers] == [404, 200, 200]


async def test_an_address_with_many_sessions_makes_room_for_the_others(tmp_path: Path) -> None:
    """However old the only session of another address is, and if its own are in use for a moment."""
    config = write_config(tmp_path, {}, http={"sessions_per_agent": 3})
    with http_gateway(config) as url:
        other = httpx2.AsyncHTTPTransport(local_address="127.0.0.2")
        async with httpx2.AsyncClient(timeout=120) as many, httpx2.AsyncClient(timeout=120, transport=other) as one:
            only = (await initialized(one, url)).headers["mcp-session-id"]
            assert {answer.status_code for answer in await _opened(many, url, 2)} == {200}
            for _ in range(5):
                # A session is in use until its request has ended, which its answer does not say.
                while (answer := await initialized(many, url)).status_code == 429:
                    pass
                assert answer.status_code == 200
            assert (await one.post(url, **legacy("tools/call", LIST, only))).status_code == 200


async def test_the_limit_of_all_sessions_together_is_the_gateways_own(tmp_path: Path) -> None:
    """An agent that has no session is refused too; the answer differs from that for an agent's own limit."""
    limits = {"sessions_per_agent": 5, "sessions": 2}
    config = write_config(tmp_path, {}, agents=agents_of({"a": [], "b": []}), http=limits)
    with http_gateway(config) as url:
        async with httpx2.AsyncClient(timeout=120) as client:
            assert [answer.status_code for answer in await _opened(client, url, 2, **_of("a"))] == [200, 200]
            refused = await initialized(client, url, **_of("b"))
    assert refused.status_code == 503
    words = refused.json()["error"]["message"]
    assert words.startswith("No session was opened: all agents together have 2 sessions open, which is the limit.")


async def test_a_session_that_is_not_used_ends_and_one_with_an_open_stream_stays(tmp_path: Path) -> None:
    """Its place is free again, and its id is unknown."""
    config = write_config(
        tmp_path, {}, agents=agents_of({"a": []}), http={"sessions_per_agent": 2, "session_idle_seconds": 0.5}
    )
    with http_gateway(config) as url:
        async with httpx2.AsyncClient(timeout=120, headers=_of("a")) as client, AsyncExitStack() as stack:
            kept = await _streaming(client, url, stack)
            unused = (await initialized(client, url)).headers["mcp-session-id"]
            while (answer := await initialized(client, url)).status_code == 429:
                assert "0.5 s" in answer.json()["error"]["message"]
            gone = await client.post(url, **legacy("tools/call", LIST, unused))
            there = await client.post(url, **legacy("tools/call", LIST, kept))
    assert (gone.status_code, there.status_code) == (404, 200)


async def test_a_request_as_its_session_expires_is_answered_or_finds_no_session(tmp_path: Path) -> None:
    """No answer is cut off: the request keeps the session, or comes too late."""
    idle = 0.1
    config = write_config(tmp_path, {}, http={"sessions_per_agent": 100, "session_idle_seconds": idle})
    with http_gateway(config) as url:
        async with httpx2.AsyncClient(timeout=120) as client:

            async def answers(late: float) -> list[tuple[int, bool]]:
                found = []
                for _ in range(10):
                    session = (await initialized(client, url)).headers["mcp-session-id"]
                    await asyncio.sleep(idle + late)
                    answer = await client.post(url, **legacy("tools/call", LIST, session))
                    found.append((answer.status_code, "result" in answer.text))
                return found

            each = await asyncio.gather(*(answers((number - 5) / 1000) for number in range(12)))
    assert {answer for found in each for answer in found} <= {(200, True), (404, False)}


async def _streaming(client: httpx2.AsyncClient, url: str, stack: AsyncExitStack) -> str:
    """Return a session with an open stream; on a slow machine a session may end before its stream is open."""
    while True:
        session = (await initialized(client, url)).headers["mcp-session-id"]
        of_session = {**ACCEPT, "MCP-Protocol-Version": LEGACY, "Mcp-Session-Id": session}
        stream = await stack.enter_async_context(client.stream("GET", url, headers=of_session))
        if stream.status_code == 200:
            return str(session)


async def test_a_request_that_opens_no_session_takes_no_place(tmp_path: Path) -> None:
    """Whatever is wrong with the request."""
    config = write_config(tmp_path, {}, agents=agents_of({"a": []}), http={"sessions_per_agent": 1})
    wrong: list[dict[str, Any]] = [
        {"json": INITIALIZE, "headers": {"Accept": "text/html"}},
        {"json": {**INITIALIZE, "method": "tools/list"}, "headers": ACCEPT},
        {"content": b"{", "headers": ACCEPT},
        {"json": [INITIALIZE], "headers": ACCEPT},
    ]
    with http_gateway(config) as url:
        async with httpx2.AsyncClient(timeout=120, headers=_of("a")) as client:
            for request in wrong:
                answer = await client.post(url, **request)
                assert "error" in answer.text, request
            sessions = await _opened(client, url, 2)
    assert sorted(answer.status_code for answer in sessions) == [200, 429]


async def test_a_request_that_has_no_session_ends_none_that_it_names(tmp_path: Path) -> None:
    """MCP 2026-07-28 answers an unknown method with 404, which in a session says that the session is unknown."""
    config = write_config(
        tmp_path, {}, agents=agents_of({"a": []}), http={"sessions_per_agent": 1, "session_idle_seconds": 0.5}
    )
    with http_gateway(config) as url:
        async with httpx2.AsyncClient(timeout=120, headers=_of("a")) as client:
            session = (await initialized(client, url)).headers["mcp-session-id"]
            odd = await client.post(url, **modern("no/such/method", {}, **{"Mcp-Session-Id": session}))
            assert odd.status_code == 404
            while (await initialized(client, url)).status_code == 429:
                pass
            assert (await client.post(url, **legacy("tools/call", LIST, session))).status_code == 404


async def test_an_open_session_is_notified_however_many_others_have_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that has ended takes no place of those that are notified."""
    monkeypatch.setattr(agents, "MAX_SESSIONS", 2)
    config = write_config(tmp_path, {})
    with http_gateway(config) as url:
        async with agent(url, "legacy") as it, httpx2.AsyncClient(timeout=120) as client:
            for _ in range(4):
                session = (await initialized(client, url)).headers["mcp-session-id"]
                request = legacy("tools/list", {}, session)
                ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
                assert (await client.post(url, json=ready, headers=request["headers"])).status_code == 202
                assert (await client.post(url, **request)).status_code == 200
                assert (await client.delete(url, headers=request["headers"])).status_code == 200
            catalogs = cycle(({"greeter": {"command": "true"}}, {}))

            async def is_notified() -> bool:
                # An edit before the client listens is lost, so there is one after another.
                write_config(tmp_path, {}, catalog=next(catalogs))
                await asyncio.sleep(0.5)
                return it.heard > 0

            await becomes(is_notified, True)


async def test_limits_are_edited_while_the_gateway_runs(tmp_path: Path) -> None:
    """For sessions that are opened later."""
    config = write_config(tmp_path, {}, agents=agents_of({"a": []}), http={"sessions_per_agent": 1})
    with http_gateway(config) as url:
        async with httpx2.AsyncClient(timeout=120, headers=_of("a")) as client:
            assert [answer.status_code for answer in await _opened(client, url, 1)] == [200]
            write_config(tmp_path, {}, agents=agents_of({"a": []}), http={"sessions_per_agent": 2})
            while (await initialized(client, url)).status_code == 429:
                pass
            assert [answer.status_code for answer in await _opened(client, url, 1)] == [429]


async def test_an_edit_of_the_idle_time_counts_for_sessions_that_are_already_idle(tmp_path: Path) -> None:
    """Otherwise the places of the agents that filled them would stay taken for as long as the old file said."""
    config = write_config(
        tmp_path, {}, agents=agents_of({"a": []}), http={"sessions_per_agent": 1, "session_idle_seconds": 86_000}
    )
    with http_gateway(config) as url:
        async with httpx2.AsyncClient(timeout=120, headers=_of("a")) as client:
            idle = (await initialized(client, url)).headers["mcp-session-id"]
            assert (await initialized(client, url)).status_code == 429
            write_config(
                tmp_path, {}, agents=agents_of({"a": []}), http={"sessions_per_agent": 1, "session_idle_seconds": 0.1}
            )
            async with asyncio.timeout(SECONDS):
                while (await initialized(client, url)).status_code == 429:
                    pass
            assert (await client.post(url, **legacy("tools/call", LIST, idle))).status_code == 404


@pytest.mark.parametrize(("most", "status"), [(1_000, 413), (1_000_000, 200)])
async def test_a_request_that_is_too_large_gets_an_error_that_says_so(most: int, status: int, tmp_path: Path) -> None:
    """Whether its length is announced or not, in both revisions."""
    config = write_config(tmp_path, {}, http={"request_bytes": most})
    with http_gateway(config) as url:
        async with httpx2.AsyncClient(timeout=120) as client:
            call = modern("tools/call", LIST)
            call["json"]["params"]["arguments"] = {"name": "x" * 2_000, "operation": "get"}
            session = (await initialized(client, url)).headers["mcp-session-id"]
            old = legacy("tools/call", call["json"]["params"], session)
            for request in (call, old):
                whole = await client.post(url, **request)
                body = httpx2.Request("POST", url, json=request["json"]).content

                async def pieces(body: bytes = body):  # type: ignore[no-untyped-def]
                    yield body

                in_pieces = await client.post(url, content=pieces(), headers=request["headers"])
                assert (whole.status_code, in_pieces.status_code) == (status, status)
                if status == 413:
                    words = "The body of the request has more than 1,000 bytes, which is the limit"
                    assert whole.json()["error"]["message"].startswith(words)
                    assert in_pieces.json()["error"]["message"].startswith(words)


async def test_a_gateway_with_very_many_sessions_ends_in_its_grace_time(tmp_path: Path) -> None:
    """No request is in flight, so nothing is cut off; each session has several tasks."""
    config = write_config(tmp_path, {}, http={"sessions_per_agent": 10_000, "sessions": 10_000})
    command = [*COMMAND, "gateway", "--config", str(config), "--transport", "http", "--address", "127.0.0.1:0"]
    with (tmp_path / "gateway.log").open("w") as log:
        with starting_commands():
            process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=log)
        try:
            assert process.stdout is not None
            url = (await process.stdout.readline()).decode().split()[-1]
            async with httpx2.AsyncClient(timeout=120, limits=httpx2.Limits(max_connections=10)) as client:
                answers = await _opened(client, url, 500)
            assert {answer.status_code for answer in answers} == {200}
            process.terminate()
            assert await process.wait() == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    text = (tmp_path / "gateway.log").read_text()
    assert "cut off" not in text
    assert "Traceback" not in text
