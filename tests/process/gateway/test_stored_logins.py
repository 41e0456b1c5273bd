"""Logins by OAuth last: they are stored, renewed by one process at a time, and made by a person alone."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import signal
import socket
import stat
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import keyring
import keyring.backend
import keyring.errors
import pytest

from callability.gateway.config.config import load_config
from callability.gateway.offline import LoggedIn, LoggedOut, log_in, log_out
from callability.gateway.runtime.runtime import GatewayOptions, open_gateway
from callability.gateway.upstream import login_store
from callability.gateway.upstream.failure import UpstreamError
from callability.gateway.upstream.login_store import StoredLogin
from callability.gateway.upstream.target import logged_in_target
from callability.gateway.upstream.upstream import Upstream
from support.catalogs import Person, agent, entry, gateway, plain
from support.checkout import TESTS
from support.commands import callability
from support.connected_upstream import connected
from support.gateway_in_process import client_of
from support.gateways import call, retrieve, text_of, write_config
from support.local_policy import local_policy
from support.running import COMMAND, starting_commands
from support.upstreams.bad_http import BadHttp, reply
from support.upstreams.oauth_provider import OAuthProvider, browse
from support.waiting import becomes

pytestmark = pytest.mark.anyio

PATIENT = 120
REMEDY = ": run `callability servers login mail`"
DENIED = f"`mail` needs the authorization of a person{REMEDY}"


@pytest.fixture
def anyio_backend() -> str:
    """The provider runs on asyncio."""
    return "asyncio"


@pytest.fixture
async def provider() -> AsyncIterator[OAuthProvider]:
    """A provider at which the person authorizes."""
    async with OAuthProvider() as it:
        yield it


@pytest.fixture(autouse=True)
def _no_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())


def config_of(directory: Path, provider: OAuthProvider, **keys: Any) -> Path:
    """Write a config with the provider's server, `mail`."""
    return write_config(directory, {"mail": {"url": provider.url, "oauth": {}}}, **keys)


async def login(config: Path) -> LoggedIn:
    """Log in, with a person who opens each address that is printed."""
    going: list[asyncio.Task[int]] = []

    def say(words: str) -> None:
        going.extend(asyncio.ensure_future(browse(url)) for url in re.findall(r"http://\S+/authorize\S+", words))

    done = await log_in(load_config(config), "mail", say, browser=False)
    await asyncio.gather(*going)
    return done


async def opening(config: Path) -> str:
    """Open the server as a gateway or a command does, and return why that fails, or "" if it does not."""
    loaded = load_config(config)
    stored = StoredLogin(config, "mail", in_keyring=loaded.tokens == "keyring")
    target = logged_in_target(loaded.servers["mail"], stored, REMEDY)
    upstream = Upstream("mail", target, open_seconds=PATIENT)
    upstream.start()
    try:
        await upstream.wait_until_open()
    except UpstreamError as error:
        return str(error)
    finally:
        await upstream.close()
    return ""


def record_of(config: Path) -> Path:
    """Return the file of the login."""
    return config.parent / "tokens" / "mail.json"


def change(config: Path, **members: Any) -> None:
    """Change members of the record, as time does."""
    record_of(config).write_text(json.dumps(json.loads(record_of(config).read_text()) | members))


def expire(config: Path) -> None:
    """Let the time of the access token be over."""
    change(config, expires_at=time.time() - 1)


async def test_a_login_is_stored_where_no_other_user_reads_it_and_commands_use_it(
    provider: OAuthProvider, tmp_path: Path
) -> None:
    """The record has what a later process needs to renew the token, and no command asks anybody."""
    config = config_of(tmp_path, provider, approvals="approvals.yaml")
    (tmp_path / "approvals.yaml").write_text("{}\n")
    show = ("approvals", "show", "mail", "--config", str(config))
    refused = await asyncio.to_thread(callability, *show)
    assert refused.returncode == 1
    assert (
        f"needs the authorization of a person: run `callability servers login mail --config {config}`" in refused.stderr
    )
    assert await login(config) == LoggedIn("", 2, is_new=True, is_stored=True)
    record = json.loads(record_of(config).read_text())
    assert stat.S_IMODE(record_of(config).stat().st_mode) == 0o600
    assert stat.S_IMODE(record_of(config).parent.stat().st_mode) == 0o700
    assert record["tokens"]["access_token"] == provider.tokens[0]
    assert record["client"]["issuer"].rstrip("/") == record["issuer"].rstrip("/") == provider.issuer
    assert record["expires_at"] > time.time()
    before = provider.requests.count("GET /authorize")
    shown = await asyncio.to_thread(callability, *show)
    assert (shown.returncode, "greet" in shown.stdout) == (0, True), shown.stderr
    assert provider.requests.count("GET /authorize") == before


async def test_a_server_that_offers_a_login_needs_no_key_for_it(provider: OAuthProvider, tmp_path: Path) -> None:
    """As in the configs of other clients: its refusal says where to log in. A refusal that does not stays as it is."""
    config = write_config(tmp_path, {"mail": {"url": provider.url}})
    assert await opening(config) == DENIED
    assert not record_of(config).parent.exists()
    assert (await login(config)).is_new
    assert await opening(config) == ""
    async with BadHttp().listening() as server:
        server.opening = reply(b"", status="401 Unauthorized", extra="WWW-Authenticate: Bearer\r\n")
        plain = write_config(tmp_path, {"mail": {"url": server.url}})
        assert await opening(plain) == "`mail` answered with HTTP status 401"


async def test_a_login_that_works_asks_nobody_again(provider: OAuthProvider, tmp_path: Path) -> None:
    """Neither a gateway nor the command."""
    config = config_of(tmp_path, provider)
    await login(config)
    assert await opening(config) == ""
    assert await login(config) == LoggedIn("", 2, is_new=False, is_stored=True)
    assert provider.requests.count("GET /authorize") == 1
    assert provider.requests.count("POST /token") == 1


async def test_a_stored_token_whose_time_is_over_is_renewed_before_it_is_sent(
    provider: OAuthProvider, tmp_path: Path
) -> None:
    """Its expiry is stored with it: nothing is refused on the way, and nobody is asked."""
    config = config_of(tmp_path, provider)
    await login(config)
    expire(config)
    provider.requests.clear()
    assert await opening(config) == ""
    assert provider.requests[:2] == ["POST /token", "POST /mcp"]
    assert "GET /authorize" not in provider.requests
    record = json.loads(record_of(config).read_text())
    assert record["tokens"]["access_token"] == provider.tokens[1]
    assert record["expires_at"] > time.time()


async def test_a_token_that_the_server_refuses_is_renewed(provider: OAuthProvider, tmp_path: Path) -> None:
    """By its clock it would still be valid."""
    config = config_of(tmp_path, provider)
    await login(config)
    provider.expire()
    assert await opening(config) == ""
    assert provider.requests.count("POST /token") == 2
    assert provider.requests.count("GET /authorize") == 1


async def test_a_provider_that_fails_rejects_nothing(provider: OAuthProvider, tmp_path: Path) -> None:
    """The login stays, and works once the provider does."""
    config = config_of(tmp_path, provider)
    await login(config)
    expire(config)
    provider.token_status = 503
    before = record_of(config).read_text()
    why = "could not renew its authorization: its provider answered with HTTP status 503"
    assert await opening(config) == f"`mail` {why}"
    provider.token_status = 0
    provider.dropping = {"/token"}
    assert "could not renew its authorization" in await opening(config)
    provider.dropping = set()
    assert record_of(config).read_text() == before
    assert await opening(config) == ""
    assert provider.requests.count("GET /authorize") == 1


async def test_a_login_that_the_provider_ended_needs_a_person_once(provider: OAuthProvider, tmp_path: Path) -> None:
    """A gateway asks nobody; the command does."""
    config = config_of(tmp_path, provider)
    await login(config)
    provider.revoke()
    assert await opening(config) == DENIED
    assert provider.requests.count("GET /authorize") == 1
    assert (await login(config)).is_new
    assert provider.requests.count("GET /authorize") == 2
    assert await opening(config) == ""


async def test_a_client_is_registered_again_only_for_another_redirect_address(
    provider: OAuthProvider, tmp_path: Path
) -> None:
    """A provider sends people back only to the address that it knows of the client."""
    config = config_of(tmp_path, provider)
    await login(config)
    provider.revoke()
    assert (await login(config)).is_new
    assert provider.requests.count("POST /register") == 1
    provider.revoke()
    before = json.loads(record_of(config).read_text())["redirect_uri"]
    with socket.create_server(("127.0.0.1", urlsplit(before).port or 0)):
        assert (await login(config)).failure == ""
    assert provider.requests.count("POST /register") == 2
    assert json.loads(record_of(config).read_text())["redirect_uri"] != before


async def test_a_client_that_the_provider_forgot_is_registered_again(provider: OAuthProvider, tmp_path: Path) -> None:
    """It says so when the token is renewed."""
    config = config_of(tmp_path, provider)
    await login(config)
    expire(config)
    provider.token_status, provider.token_error = 401, "invalid_client"
    assert await opening(config) == DENIED
    done = await login(config)
    assert "gave no token" in done.failure
    assert provider.requests.count("POST /register") == 2


async def test_what_one_issuer_gave_is_never_sent_to_another(provider: OAuthProvider, tmp_path: Path) -> None:
    """The server names another provider: the token is renewed where it came from, and a person logs in at the other."""
    config = config_of(tmp_path, provider)
    await login(config)
    given = list(provider.given)
    async with OAuthProvider() as other:
        provider.advertised = other.issuer
        expire(config)
        assert await opening(config) == ""
        assert other.requests == []
        given += provider.given
        provider.revoke()
        assert (await login(config)).failure
        assert "POST /register" in other.requests
        assert not any(secret in heard for secret in given for heard in other.heard)


async def test_a_record_of_another_address_or_client_is_none(provider: OAuthProvider, tmp_path: Path) -> None:
    """Its tokens go nowhere."""
    config = config_of(tmp_path, provider)
    await login(config)
    sent = len(provider.requests)
    change(config, url="http://127.0.0.1:9/mcp")
    assert await opening(config) == DENIED
    change(config, url=provider.url)
    write_config(tmp_path, {"mail": {"url": provider.url, "oauth": {"client_id": "mine"}}})
    assert await opening(config) == DENIED
    assert {*provider.requests[sent:]} == {"POST /mcp"}
    record_of(config).write_text('{"version": 1, "url"')
    assert await opening(config) == DENIED


async def test_processes_that_renew_at_the_same_time_do_it_once(provider: OAuthProvider, tmp_path: Path) -> None:
    """The others use what the first one was given: a refresh token works once."""
    config = config_of(tmp_path, provider)
    await login(config)
    expire(config)
    assert await asyncio.gather(*(opening(config) for _ in range(5))) == [""] * 5
    assert provider.requests.count("POST /token") == 2


async def test_of_several_processes_that_need_a_person_one_asks(provider: OAuthProvider, tmp_path: Path) -> None:
    """The others wait, and use what it was given."""
    config = config_of(tmp_path, provider)
    browser = tmp_path / "browser"
    program = "import sys, urllib.request; urllib.request.urlopen(sys.argv[1])"
    browser.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{program}' \"$1\"\n")
    browser.chmod(0o755)
    said = await asyncio.gather(*(process(config, BROWSER=str(browser)) for _ in range(2)))
    assert sorted(out for out, _ in said) == [
        "server `mail` is authorized already, and lists 2 tools; a running gateway applies it\n",
        "server `mail` is authorized, and lists 2 tools; a running gateway applies it\n",
    ]
    assert provider.requests.count("GET /authorize") == 1


async def process(config: Path, **environment: str) -> tuple[str, str]:
    """Run the login command as a process of its own, and return what it printed."""
    command = [*COMMAND, "servers", "login", "mail", "--config", str(config)]
    pipe = asyncio.subprocess.PIPE
    with starting_commands():
        it = await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=pipe, stderr=pipe, env={**os.environ, **environment}
        )
    out, error = await it.communicate()
    assert it.returncode == 0, error
    return out.decode(), error.decode()


@pytest.mark.parametrize("has_grace", [True, False])
async def test_a_process_that_is_killed_before_it_stores_an_answer_tears_no_record(
    provider: OAuthProvider, tmp_path: Path, *, has_grace: bool
) -> None:
    """The refresh token is used up then, unless the provider has a grace period: one person is asked, or none."""
    config = config_of(tmp_path, provider)
    await login(config)
    expire(config)
    provider.rotates_at_once = not has_grace
    before = record_of(config).read_text()
    program = [sys.executable, str(TESTS / "support" / "killed_renewal.py"), str(config), "mail"]
    killed = await asyncio.create_subprocess_exec(*program)
    assert await killed.wait() == -signal.SIGKILL
    assert provider.requests.count("POST /token") == 2
    assert record_of(config).read_text() == before
    assert await opening(config) == ("" if has_grace else DENIED)
    assert (await login(config)).is_new is not has_grace
    assert await opening(config) == ""
    assert {path.name for path in record_of(config).parent.iterdir()} == {"mail.json", "mail.lock"}


async def test_no_browser_takes_the_address_that_is_pasted(provider: OAuthProvider, tmp_path: Path) -> None:
    """As on a machine that the browser cannot reach; an address of something else is refused."""
    config = config_of(tmp_path, provider)
    command = [*COMMAND, "servers", "login", "mail", "--no-browser", "--config", str(config)]
    pipe = asyncio.subprocess.PIPE
    with starting_commands():
        it = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe)
    assert it.stdin is not None
    assert it.stderr is not None
    url = ""
    while "/authorize" not in url:
        url = (await it.stderr.readline()).decode().strip()
    async with httpx2.AsyncClient() as browser:
        ended_at = (await browser.get(url)).headers["location"]
    it.stdin.write(f"http://127.0.0.1/callback?code=x&state=y\n{ended_at}\n".encode())
    out, error = await it.communicate()
    assert it.returncode == 0, error
    assert b"belongs to no authorization that is under way" in error
    assert out.startswith(b"server `mail` is authorized, and lists 2 tools")


async def test_no_call_of_an_agent_authorizes_a_server_of_the_owner(provider: OAuthProvider, tmp_path: Path) -> None:
    """Its load is denied, with the command for the user; once they have run it, the gateway connects it (E-10)."""
    config = config_of(tmp_path, provider)
    command = f"callability servers login mail --config {config}"
    async with client_of(config) as client:
        await becomes(lambda: load_of(client), "denied")
        servers = (await client.call_tool("upstream_servers", {"operation": "list"})).structured_content
        assert servers is not None
        assert servers["servers"][0]["load"]["error"].endswith(f"needs the authorization of a person: run `{command}`")
        refused = text_of(await call(client, "mail:greet"))
        assert command in refused
        assert text_of(await client.call_tool("enable_server", {"id": "mail"}))
        await retrieve(client, "greet")
        assert {*provider.requests} == {"POST /mcp"}

        assert (await login(config)).is_new
        config.write_text(config.read_text())
        await becomes(lambda: load_of(client), "available")
        assert text_of(await call(client, "mail:greet")) == "greet was called"

        out = await asyncio.to_thread(callability, "servers", "logout", "mail", "--config", str(config))
        removed = "the stored login of server `mail` is removed; a running gateway applies it\n"
        assert out.stdout == f"{removed}its provider revoked the token\n", out.stderr
        await becomes(lambda: load_of(client), "denied")
        assert not record_of(config).exists()
        assert not (await log_out(load_config(config), "mail")).was_there


async def test_a_logout_has_the_refresh_token_revoked_and_says_if_that_failed(
    provider: OAuthProvider, tmp_path: Path
) -> None:
    """The login is removed in any case; a copy of its refresh token is then worth nothing."""
    config = config_of(tmp_path, provider)
    await login(config)
    copy = record_of(config).read_text()
    assert await log_out(load_config(config), "mail") == LoggedOut(was_there=True)
    assert json.loads(copy)["tokens"]["refresh_token"] in provider.heard[-1]
    record_of(config).write_text(copy)
    expire(config)
    assert await opening(config) == DENIED
    await login(config)
    provider.echoing = {"/revoke"}
    assert (await log_out(load_config(config), "mail")).unrevoked == "it answered with HTTP status 400"
    assert not record_of(config).exists()
    record_of(config).write_text(copy)
    change(config, metadata=None)
    assert await log_out(load_config(config), "mail") == LoggedOut(True, "it has no address for that")
    record_of(config).write_text(copy.replace(f"{provider.issuer}/revoke", "http://elsewhere.example/revoke"))
    assert (await log_out(load_config(config), "mail")).unrevoked == "its address for that is not encrypted"


async def test_a_server_over_events_is_authorized_like_another(provider: OAuthProvider, tmp_path: Path) -> None:
    """One dialog; then the stored token is renewed before it is sent, and when a message is refused."""
    config = write_config(tmp_path, {"mail": {"type": "sse", "url": provider.events_url, "oauth": {}}})
    assert await opening(config) == DENIED
    assert await login(config) == LoggedIn("", 2, is_new=True, is_stored=True)
    expire(config)
    provider.requests.clear()
    server = load_config(config).servers["mail"]
    upstream = Upstream("mail", logged_in_target(server, StoredLogin(config, "mail"), REMEDY), open_seconds=PATIENT)
    async with connected(upstream) as it:
        assert provider.requests[:2] == ["POST /token", "GET /mcp/sse"]
        assert [tool.name for tool in it.tools] == ["greet", "secret"]
        provider.expire()
        assert text_of(await it.call("greet", {})) == "greet was called"
    assert provider.requests.count("POST /token") == 2
    assert "GET /authorize" not in provider.requests


async def load_of(client: Any) -> str:
    """Return the status of the server's latest load."""
    content = (await client.call_tool("upstream_servers", {"operation": "list"})).structured_content
    return str(content["servers"][0].get("load", {}).get("status"))


async def test_a_server_of_the_catalog_is_enabled_after_a_restart_without_a_dialog(
    provider: OAuthProvider, tmp_path: Path
) -> None:
    """An agent that disables it makes the gateway forget the login, so that another account can be used."""
    person = Person()
    catalog = {"greeter": entry(provider)}
    for restart in range(2):
        async with gateway(tmp_path, catalog) as gateways, agent(gateways, "legacy", person) as it:
            assert not (await it.enable()).is_error
            assert await it.finds() == ["greeter:greet"] or await it.finds()
            assert len(person.dialogs) == 1
            if restart:
                await it.disable()
                assert not (await it.enable()).is_error
                assert len(person.dialogs) == 2


async def test_a_gateway_waits_for_the_person_whom_another_one_requests(
    provider: OAuthProvider, tmp_path: Path
) -> None:
    """Longer than for a server, and its own user sees no dialog."""
    first, second = Person("waits"), Person()
    async with BadHttp().listening() as hanging:
        hanging.opening = "hang"
        catalog = {"greeter": entry(provider), "slow": plain(hanging)}
        config = write_config(tmp_path, {}, catalog=catalog, deadlines={"enable_seconds": 3})
        options = GatewayOptions(load_config(config), None, local_policy())
        async with (
            open_gateway(options) as one,
            open_gateway(options) as other,
            agent(one, "legacy", first) as holder,
            agent(other, "legacy", second) as waiter,
        ):
            enabled = asyncio.create_task(holder.enable())
            await first.prompted.wait()
            following = asyncio.create_task(waiter.enable())
            # It has the same time for a connection, and starts later.
            assert (await waiter.enable("slow")).is_error
            assert not following.done()
            first.may.set()
            assert not (await enabled).is_error
            assert not (await following).is_error
            assert second.dialogs == []


class _Ring(keyring.backend.KeyringBackend):
    """A keyring in memory."""

    priority = 1

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.kept: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self.kept[service, username]


class _HangingRing(_Ring):
    """One that shows a dialog that nobody sees."""

    def set_password(self, service: str, username: str, password: str) -> None:
        time.sleep(PATIENT)


async def test_with_a_keyring_no_file_has_a_token(
    provider: OAuthProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a keyring that does not answer, the login fails after a while."""
    config = config_of(tmp_path, provider, tokens="keyring")
    ring = _Ring()
    keyring.set_keyring(ring)
    assert (await login(config)).failure == ""
    assert set(json.loads(record_of(config).read_text())) == {"id", "kept_in"}
    assert await opening(config) == ""
    assert await log_out(load_config(config), "mail")
    assert ring.kept == {}
    keyring.set_keyring(_HangingRing())
    monkeypatch.setattr(login_store, "KEYRING_SECONDS", 0.2)
    assert (await login(config)).failure.endswith("cannot be stored: the keyring did not answer within 0.2 s")
    assert not record_of(config).exists()
