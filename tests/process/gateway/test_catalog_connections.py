"""Connections of catalog servers: their tokens, edits of their entries, and gateways that are processes (spec C)."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from mcp.client.auth import oauth2

from callability.gateway.tools import catalog_tools
from support.catalogs import (
    MODES,
    Agent,
    Mode,
    Person,
    agent,
    entry,
    gateway,
    has_no_trace,
    is_connection,
    is_no_connection,
    plain,
    until,
    works,
)
from support.gateway_in_process import http_gateway
from support.gateways import stdio_gateway, text_of, write_config
from support.upstreams.bad_http import BadHttp
from support.upstreams.oauth_provider import OAuthProvider
from support.waiting import becomes

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("mode", MODES)]


@pytest.fixture
def anyio_backend() -> str:
    """Gateways run on asyncio."""
    return "asyncio"


@pytest.fixture
async def provider() -> AsyncIterator[OAuthProvider]:
    """A provider at which the person authorizes."""
    async with OAuthProvider(tools=("greet", "secret")) as it:
        yield it


def _call(it: Agent, tool: str = "greet") -> Any:
    return it.ask("call_tool", name=f"greeter:{tool}")


class Later:
    """The time after a token of one hour has expired."""

    @staticmethod
    def time() -> float:
        """Return it, in seconds."""
        return time.time() + 7200


@pytest.mark.parametrize("notified", [True, False])
async def test_a_token_whose_time_is_over_is_refreshed_without_the_person(
    notified: bool, mode: Mode, provider: OAuthProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if the provider ends it earlier than announced."""
    person = Person()
    async with gateway(tmp_path, {"greeter": entry(provider)}) as gateways, agent(gateways, mode, person) as it:
        is_connection(await it.enable())
        provider.expire()
        if notified:
            monkeypatch.setattr(oauth2, "time", Later)
            provider.token_seconds = 36_000
        called = await asyncio.gather(*(_call(it) for _ in range(5)))
        assert [text_of(each) for each in called] == ["greet was called"] * 5
        assert (len(provider.tokens), len(person.dialogs)) == (2, 1)
        assert await it.state() == "connected"
        await it.notified(1)


async def test_an_authorization_that_is_of_no_use_is_not_requested_again(
    mode: Mode, provider: OAuthProvider, tmp_path: Path
) -> None:
    """A provider whose tokens are expired on arrival: one dialog, and the server's refusal is the reason."""
    provider.token_seconds, provider.leeway_seconds, person = 0, 0, Person()
    async with gateway(tmp_path, {"greeter": entry(provider)}) as gateways, agent(gateways, mode, person) as it:
        notified = is_no_connection(await it.enable(), "connect_failed")
        assert "could not be connected: answered with HTTP status 401 (denied)." in notified
        assert (len(person.dialogs), await it.state()) == (1, "absent")
        provider.token_seconds = 3600
        await works(it)


async def test_a_connection_whose_tokens_are_taken_back_ends_and_asks_nobody(
    mode: Mode, provider: OAuthProvider, tmp_path: Path
) -> None:
    """A call says how to connect it again and does not connect it; an enable does (E-3, E-4)."""
    person = Person()
    async with gateway(tmp_path, {"greeter": entry(provider)}) as gateways, agent(gateways, mode, person) as it:
        is_connection(await it.enable())
        provider.revoke()
        for _ in range(2):
            lost = await _call(it)
            assert lost.is_error
            assert "Connect it again with `enable_server`." in text_of(lost)
            assert await it.state() == "failed"
            requests = len(provider.requests)
            await it.finds()
            listed = (await it.ask("upstream_servers")).structured_content or {}
            assert [each["state"] for each in listed["servers"]] == ["failed"]
            assert len(provider.requests) == requests
        assert (len(person.dialogs), provider.connections) == (1, 1)
        is_connection(await it.enable())
        assert text_of(await _call(it)) == "greet was called"
        assert (len(person.dialogs), provider.connections) == (2, 2)
        await it.disable()
        await has_no_trace(it)


FAILING = {
    "it is down": (503, "invalid_grant"),
    "it is busy": (429, ""),
    "it mistakes the client": (401, "invalid_client"),
    "it says so": (400, "temporarily_unavailable"),
    "it gives none": (200, ""),
    "gone": (0, ""),
}


@pytest.mark.parametrize("how", FAILING)
async def test_a_token_endpoint_that_fails_for_a_while_ends_no_authorization(
    how: str, mode: Mode, provider: OAuthProvider, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The call was not carried out, and the next one is; the person has consented, and is not asked again."""
    person = Person()
    async with gateway(tmp_path, {"greeter": entry(provider)}) as gateways, agent(gateways, mode, person) as it:
        is_connection(await it.enable())
        provider.expire()
        provider.token_status, provider.token_error = FAILING[how]
        provider.dropping.update({"/token"} if how == "gone" else ())
        lost = await _call(it)
        assert lost.is_error
        assert "could not renew its authorization: its provider" in text_of(lost)
        assert "; the call was not carried out." in text_of(lost)
        assert "`greeter` refused a call of `greet`: it could not renew its authorization" in caplog.text
        assert await it.state() == "connected"
        provider.token_status = 0
        provider.dropping.clear()
        assert text_of(await _call(it)) == "greet was called"
        assert (len(person.dialogs), provider.connections) == (1, 1)


async def test_a_call_that_needs_more_than_was_authorized_fails_alone(
    mode: Mode, provider: OAuthProvider, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One tool needs another scope: the others go on with the authorization that there is."""
    person = Person()
    provider.out_of_scope.add("secret")
    async with gateway(tmp_path, {"greeter": entry(provider)}) as gateways, agent(gateways, mode, person) as it:
        is_connection(await it.enable())
        requests = len(provider.requests)
        refused = [text_of(await _call(it, "secret")) for _ in range(2)]
        assert len(provider.requests) == requests + 2
        for each in refused:
            assert "answered with HTTP status 403; the call was not carried out. Access denied. The user can" in each
            assert each.endswith("call `disable_server`, then `enable_server`.")
        assert caplog.text.count("`greeter` refused a call of `secret`: it answered with HTTP status 403") == 1
        assert await it.state() == "connected"
        assert text_of(await _call(it)) == "greet was called"
        assert (len(person.dialogs), provider.connections) == (1, 1)


async def test_a_token_that_the_server_refuses_for_a_while_ends_no_authorization(
    mode: Mode, provider: OAuthProvider, tmp_path: Path
) -> None:
    """Even a renewed one: only the provider ends it."""
    person = Person()
    async with gateway(tmp_path, {"greeter": entry(provider)}) as gateways, agent(gateways, mode, person) as it:
        is_connection(await it.enable())
        provider.mcp_status = 401
        refused = text_of(await _call(it))
        assert "answered with HTTP status 401; the call was not carried out. Access denied. The user can" in refused
        assert await it.state() == "connected"
        provider.mcp_status = 0
        assert text_of(await _call(it)) == "greet was called"
        assert (len(person.dialogs), provider.connections) == (1, 1)


@pytest.mark.parametrize("authorized", [True, False])
async def test_calls_on_a_server_with_oauth_do_not_wait_for_one_another(
    authorized: bool, mode: Mode, provider: OAuthProvider, tmp_path: Path
) -> None:
    """Three at once, also on a server that needs no token."""
    upstream = BadHttp()
    async with upstream.listening():
        greeter = entry(provider) if authorized else {"url": upstream.url, "oauth": {}}
        async with gateway(tmp_path, {"greeter": greeter}) as gateways, agent(gateways, mode, Person()) as it:
            is_connection(await it.enable())
            provider.released.clear()
            calls = [asyncio.ensure_future(_call(it, "greet" if authorized else "hold")) for _ in range(3)]
            if authorized:
                await until(lambda: provider.calls == 3)
            else:
                await asyncio.wait_for(upstream.hold(3), 60)
            assert [call.done() for call in calls] == [False] * 3
            provider.released.set()
            upstream.release()
            assert [(await call).is_error for call in calls] == [False] * 3


def _edit(directory: Path, catalog: dict[str, Any]) -> None:
    path = directory / "mcp_config.json"
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(json.loads(path.read_text()) | {"catalog": catalog}))
    os.replace(beside, path)


async def test_an_entry_that_is_removed_is_disconnected(mode: Mode, provider: OAuthProvider, tmp_path: Path) -> None:
    """Its agents are notified, and the server is unknown to them; an edit of its description keeps the connection."""
    upstream = BadHttp(answers={"greet": "ok"})
    async with upstream.listening():
        other = {"other": plain(upstream)}
        async with (
            gateway(tmp_path, {"greeter": entry(provider), **other}) as gateways,
            agent(gateways, mode, Person()) as it,
        ):
            is_connection(await it.enable())
            _edit(tmp_path, {"greeter": entry(provider, description="Says hello."), **other})

            async def described() -> bool:
                return "Says hello." in text_of(await it.ask("search_servers"))

            await becomes(described, True)
            assert text_of(await _call(it)) == "greet was called"
            await it.notified(1)
            _edit(tmp_path, other)
            await it.notified(2)
            await has_no_trace(it, in_catalog=False)
            is_no_connection(await it.enable(), "unknown_server")
            assert provider.connections == 1


async def test_an_entry_that_is_removed_or_led_elsewhere_ends_its_attempt(
    mode: Mode, provider: OAuthProvider, tmp_path: Path
) -> None:
    """Waiting callers read so, and the next connection follows the new config (E-7)."""
    upstream, person = BadHttp(answers={"greet": "ok"}), Person("waits")
    async with upstream.listening():
        other = {"other": plain(upstream)}
        async with (
            gateway(tmp_path, {"greeter": entry(provider), **other}) as gateways,
            agent(gateways, mode) as mute,
            agent(gateways, mode, person) as it,
        ):
            call = asyncio.ensure_future(it.enable())
            await person.prompted.wait()
            waiting = asyncio.ensure_future(mute.enable())
            await mute.client.list_tools()
            _edit(tmp_path, {"greeter": plain(upstream), **other})
            is_no_connection(await waiting, "cancelled")
            if mode == "legacy":
                is_no_connection(await call, "cancelled")
            else:
                call.cancel()
                await asyncio.wait({call})
            await works(mute)
            is_connection(await mute.enable())
            _edit(tmp_path, {"greeter": plain(upstream, headers={"X-Other": "1"}), **other})
            await mute.notified(4)
            assert await mute.state() == "absent"
            await works(mute, heard=4)
            assert "x-other: 1" in upstream.head.lower()
            assert provider.connections == 0


async def test_the_first_entry_brings_the_tools_of_the_catalog(mode: Mode, tmp_path: Path) -> None:
    """And the last one removes them; only the agents that see the server are notified."""
    upstream = BadHttp(answers={"greet": "ok"})
    async with upstream.listening():
        agents = {"clerk": {"servers": ["on"]}}
        async with (
            gateway(tmp_path, {}, servers={"on": plain(upstream)}, agents=agents) as gateways,
            agent(gateways, mode) as it,
            agent(gateways, mode, None, "clerk") as clerk,
        ):
            assert len((await it.client.list_tools()).tools) == 3
            _edit(tmp_path, {"greeter": plain(upstream)})
            await it.notified(1)
            names = [tool.name for tool in (await it.client.list_tools()).tools]
            assert names[3:] == ["search_servers", "enable_server", "disable_server"]
            is_connection(await it.enable())
            await it.notified(2)
            _edit(tmp_path, {})
            await until(lambda: it.heard >= 4)
            await it.notified(4)
            assert len((await it.client.list_tools()).tools) == 3
            assert len((await clerk.client.list_tools()).tools) == 3
            await clerk.notified(0)


async def test_a_caller_that_waits_receives_progress(
    mode: Mode, provider: OAuthProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over MCP 2025-11-25 the call reports progress while the dialog is open; over 2026-07-28 it has returned (E-1)."""
    monkeypatch.setattr(catalog_tools, "PROGRESS_SECONDS", 0.01)
    person, notified = Person("waits"), asyncio.Event()

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        if message == "waiting for the user's authorization":
            notified.set()

    async with gateway(tmp_path, {"greeter": entry(provider)}) as gateways, agent(gateways, mode, person) as it:
        call = asyncio.ensure_future(
            it.client.call_tool("enable_server", {"id": "greeter"}, progress_callback=progress)
        )
        await person.prompted.wait()
        if mode == "legacy":
            await asyncio.wait_for(notified.wait(), 60)
        assert await it.state() == "connecting"
        person.may.set()
        is_connection(await call)


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_gateway_that_is_a_process_asks_the_user_and_connects(
    transport: str, mode: Mode, provider: OAuthProvider, tmp_path: Path
) -> None:
    """Over both transports: a decline, a retry that works, and one notification for each change."""
    config, person = write_config(tmp_path, {}, catalog={"greeter": entry(provider)}), Person("declines")

    async def story(it: Agent) -> None:
        is_no_connection(await it.enable(), "declined")
        assert await it.state() == "absent"
        person.does = "goes"
        await works(it)
        assert len(person.dialogs) == 2

    if transport == "http":
        with http_gateway(config) as url:
            async with agent(url, mode, person) as it:
                await story(it)
        return
    with (tmp_path / "gateway.log").open("w") as log:
        async with agent(stdio_gateway("--config", str(config), errlog=log), mode, person) as it:
            await story(it)
