"""Requests in progress over HTTP: no agent can use up the connections of the others."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest

from callability.gateway.serving import http_agents
from support.gateway_in_process import http_gateway
from support.gateway_requests import modern
from support.gateways import agents_of, token_of, write_config
from support.waiting import becomes

pytestmark = pytest.mark.anyio

LIST = {"name": "upstream_servers", "arguments": {}}
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
            error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32603, "message": words}}
            assert [(answer.status_code, answer.json()) for answer in refused] == [(429, error)] * 3
            assert (await client.post(url, **modern("tools/call", LIST, **_of("b")))).status_code == 200
            await first.aclose()

            async def served() -> int:
                return (await client.post(url, **modern("tools/call", LIST, **_of("a")))).status_code

            await becomes(served, 200)
            for each in rest:
                await each.aclose()
    assert (tmp_path / "gateway.log").read_text().count("agent `a` has 3 requests in progress") == 1


async def test_an_agent_has_at_most_half_of_the_connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the config says."""
    monkeypatch.setattr(http_agents, "most_connections", lambda: 4)
    config = write_config(tmp_path, {}, agents=agents_of({"a": []}), http={"requests_per_agent": 10_000})
    with http_gateway(config) as url:
        async with httpx2.AsyncClient(timeout=120, limits=UNLIMITED) as client:
            streams = await _listening(client, url, 2, **_of("a"))
            answer: dict[str, Any] = (await client.post(url, **modern("tools/call", LIST, **_of("a")))).json()
            assert "agent `a` has 2 requests in progress" in answer["error"]["message"]
            for each in streams:
                await each.aclose()


async def test_clients_without_a_token_do_not_share_a_limit_of_requests(tmp_path: Path) -> None:
    """Otherwise one of them could lock out the others with fewer requests than there are connections."""
    with http_gateway(write_config(tmp_path, {}, http={"requests_per_agent": 1})) as url:
        async with httpx2.AsyncClient(timeout=120, limits=UNLIMITED) as client:
            streams = await _listening(client, url, 3)
            assert (await client.post(url, **modern("tools/call", LIST))).status_code == 200
            for each in streams:
                await each.aclose()
