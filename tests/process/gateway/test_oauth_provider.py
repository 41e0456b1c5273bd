"""The provider that other tests sign in at follows OAuth: checked with the SDK's client, and by hand."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import secrets
import signal
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Literal
from urllib.parse import parse_qsl, urlsplit

import httpx2
import pytest
from mcp import Client
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, OAuthRegistrationError, OAuthTokenError
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata
from mcp_types import TextContent

from support.upstreams.bad_http import reply
from support.upstreams.oauth_provider import OAuthProvider, Person, browse

pytestmark = pytest.mark.anyio

PARAMS = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
OPEN = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": PARAMS}
ACCEPT = {"Accept": "application/json, text/event-stream"}
METADATA = ["GET /.well-known/oauth-protected-resource/mcp", "GET /.well-known/oauth-authorization-server"]
FIRST = ["POST /mcp", *METADATA, "POST /register", "GET /authorize", "POST /token", "POST /mcp"]
"""The requests of a client that knows only the endpoint, until it is authorized."""


@pytest.fixture
def anyio_backend() -> str:
    """The provider runs on asyncio."""
    return "asyncio"


@pytest.fixture
async def provider() -> AsyncIterator[OAuthProvider]:
    """A provider at which the person authorizes."""
    async with OAuthProvider() as it:
        yield it


class Declined(Exception):
    """The provider sent an error to the callback."""


class _Forgetful:
    """A store that keeps nothing: the client itself remembers while it lives."""

    async def get_tokens(self) -> None: ...
    async def set_tokens(self, tokens: object) -> None: ...
    async def get_client_info(self) -> None: ...
    async def set_client_info(self, client_info: object) -> None: ...


@asynccontextmanager
async def signing_in(url: str) -> AsyncGenerator[httpx2.AsyncClient]:
    """Yield an HTTP client that signs in when needed, as the SDK does it, with a listener for its callback."""
    called = asyncio.Queue[dict[str, str]]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        called.put_nowait(query_of((await reader.readuntil(b"\r\n\r\n")).decode().split()[1]))
        writer.write(reply(b"done", extra="Connection: close\r\n"))
        writer.close()

    async def sign_in(page: str) -> None:
        assert await browse(page) == 200

    async def answer() -> AuthorizationCodeResult:
        parameters = await asyncio.wait_for(called.get(), 120)
        if "error" in parameters:
            raise Declined(parameters["error"])
        return AuthorizationCodeResult.model_validate(parameters)

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        uri = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/callback"
        metadata = OAuthClientMetadata.model_validate({"redirect_uris": [uri], "token_endpoint_auth_method": "none"})
        oauth = OAuthClientProvider(url, metadata, _Forgetful(), sign_in, answer)
        async with httpx2.AsyncClient(auth=oauth, headers=ACCEPT, timeout=120) as client:
            yield client


def query_of(url: str) -> dict[str, str]:
    """Return the query of a URL."""
    return dict(parse_qsl(urlsplit(url).query))


class ByHand:
    """A client without a secret that sends the requests step by step, so that each step can be wrong."""

    def __init__(self, http: httpx2.AsyncClient, resource: str) -> None:
        self._http = http
        self._verifier = secrets.token_urlsafe(48)
        digest = hashlib.sha256(self._verifier.encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        self._parameters = {"response_type": "code", "redirect_uri": "http://127.0.0.1:9/callback", "state": "x y&z"}
        self._parameters |= {"code_challenge": challenge, "code_challenge_method": "S256", "resource": resource}

    async def register(self) -> None:
        """Get an id."""
        form = {"redirect_uris": [self._parameters["redirect_uri"]], "token_endpoint_auth_method": "none"}
        self._parameters["client_id"] = (await self._http.post("/register", json=form)).json()["client_id"]

    async def authorize(self, **changed: str) -> httpx2.Response:
        """Open the page at which the person is asked, and follow no redirect."""
        return await self._http.get("/authorize", params=self._parameters | changed)

    async def code(self) -> str:
        """Return the code of a person who authorizes."""
        return query_of((await self.authorize()).headers["location"])["code"]

    async def tokens(self, **changed: str) -> dict[str, Any]:
        """Return what is given for a code or a refresh token."""
        form = {"grant_type": "refresh_token" if "refresh_token" in changed else "authorization_code"}
        form |= {name: self._parameters[name] for name in ("client_id", "redirect_uri")}
        answer = await self._http.post("/token", data={**form, "code_verifier": self._verifier, **changed})
        return dict(answer.json())


@pytest.fixture
async def by_hand(provider: OAuthProvider) -> AsyncIterator[ByHand]:
    """A registered client."""
    async with httpx2.AsyncClient(base_url=provider.issuer, timeout=120) as http:
        it = ByHand(http, provider.url)
        await it.register()
        yield it


async def opened_with(provider: OAuthProvider, token: str, **headers: str) -> httpx2.Response:
    """Return the answer of the MCP server to an opening with a token; "" for none."""
    bearer = {"Authorization": f"Bearer {token}"} if token else {}
    async with httpx2.AsyncClient(timeout=120) as http:
        return await http.post(provider.url, json=OPEN, headers={**ACCEPT, **bearer, **headers})


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_whoever_authorizes_can_call_the_tools(provider: OAuthProvider, mode: Literal["auto", "legacy"]) -> None:
    """In both revisions of MCP, after one sign-in that starts with only the endpoint's URL."""
    url = provider.url
    async with signing_in(url) as http, Client(streamable_http_client(url, http_client=http), mode=mode) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["greet", "secret"]
        assert (await client.call_tool("secret", {})).content == [TextContent(text="secret was called")]
    assert provider.requests[: len(FIRST)] == FIRST
    assert {*provider.requests[len(FIRST) :]} <= {"POST /mcp", "GET /mcp", "DELETE /mcp"}
    assert len(provider.tokens) == provider.connections == 1


async def test_without_a_valid_token_the_server_says_where_to_ask_for_one(provider: OAuthProvider) -> None:
    """The refusals lead to the endpoints."""
    for token in ("", "invented"):
        answer = await opened_with(provider, token)
        assert answer.status_code == 401
    assert provider.connections == 0
    known = answer.headers["www-authenticate"].partition('resource_metadata="')[2].partition('"')[0]
    async with httpx2.AsyncClient(base_url=provider.issuer) as http:
        for url in (known, "/.well-known/oauth-protected-resource"):
            resource = (await http.get(url)).json()
            assert (resource["resource"], resource["authorization_servers"]) == (provider.url, [provider.issuer])
        about = (await http.get("/.well-known/oauth-authorization-server")).json()
    assert (about["issuer"], about["code_challenge_methods_supported"]) == (provider.issuer, ["S256"])


WRONG = {
    "code_verifier": ("x" * 64, "invalid_grant"),
    "code": ("invented", "invalid_grant"),
    "redirect_uri": ("http://127.0.0.1:9/other", "invalid_request"),
    "client_id": ("invented", "invalid_client"),
}


@pytest.mark.parametrize("name", WRONG)
async def test_a_code_is_good_once_for_the_client_that_requested_it(
    provider: OAuthProvider, by_hand: ByHand, name: str
) -> None:
    """A wrong PKCE verifier is refused like a wrong code; with all of it right there are tokens, once."""
    code = await by_hand.code()
    value, error = WRONG[name]
    assert (await by_hand.tokens(**{"code": code, name: value}))["error"] == error
    assert not provider.tokens
    given = await by_hand.tokens(code=code)
    assert (await opened_with(provider, given["access_token"])).status_code == 200
    assert (await by_hand.tokens(code=code))["error"] == "invalid_grant"
    assert provider.tokens == [given["access_token"]]


async def test_a_browser_is_sent_only_to_where_the_client_registered(provider: OAuthProvider, by_hand: ByHand) -> None:
    """No error is sent to another address; other faults are reported to the client."""
    for name in ("redirect_uri", "client_id"):
        answer = await by_hand.authorize(**{name: WRONG[name][0]})
        assert (answer.status_code, answer.headers.get("location")) == (400, None)
    for name, error in (("code_challenge_method", "invalid_request"), ("resource", "invalid_target")):
        parameters = query_of((await by_hand.authorize(**{name: "plain"})).headers["location"])
        assert (parameters["error"], parameters["state"], parameters.get("code")) == (error, "x y&z", None)
    provider.person = "nobody"
    answer = await by_hand.authorize()
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert (await by_hand.authorize(client_id="invented")).status_code == 400


@pytest.mark.parametrize(("person", "error"), [("decline", "access_denied"), ("fail", "server_error")])
async def test_who_declines_gives_no_token(provider: OAuthProvider, person: Person, error: str) -> None:
    """The client is notified, and may ask again if the person changes their mind."""
    provider.person = person
    async with signing_in(provider.url) as http:
        with pytest.raises(Declined, match=error):
            await http.post(provider.url, json=OPEN)
        assert not provider.tokens
        provider.person = "authorize"
        assert (await http.post(provider.url, json=OPEN)).status_code == 200


FAILURES: dict[str, tuple[object, type[Exception], str]] = {
    "register_status": (400, OAuthRegistrationError, "400"),
    "token_status": (400, OAuthTokenError, "invalid_grant"),
    "wrong_state": (True, OAuthFlowError, "State parameter mismatch"),
}


@pytest.mark.parametrize("setting", FAILURES)
async def test_the_provider_fails_as_configured(provider: OAuthProvider, setting: str) -> None:
    """The client's own library says what failed."""
    value, error, words = FAILURES[setting]
    setattr(provider, setting, value)
    async with signing_in(provider.url) as http:
        with pytest.raises(error, match=words):
            await http.post(provider.url, json=OPEN)
    assert not provider.tokens


async def test_a_token_whose_time_is_over_is_refreshed_without_the_person(provider: OAuthProvider) -> None:
    """The old token is refused afterwards."""
    url, provider.token_seconds = provider.url, 0
    async with signing_in(url) as http, Client(streamable_http_client(url, http_client=http)) as client:
        assert provider.requests == FIRST
        provider.token_seconds = 3600
        provider.expire()
        assert not (await client.call_tool("greet", {})).is_error
    assert provider.requests[len(FIRST)] == "POST /token"
    assert provider.requests.count("GET /authorize") == 1
    assert [(await opened_with(provider, token)).status_code for token in provider.tokens] == [401, 200]


async def test_a_refresh_token_is_good_once_an_access_token_its_time(provider: OAuthProvider, by_hand: ByHand) -> None:
    """The announced time, and the leeway."""
    provider.token_seconds = provider.leeway_seconds = 0
    given = await by_hand.tokens(code=await by_hand.code())
    assert given["expires_in"] == 0
    assert (await opened_with(provider, given["access_token"])).status_code == 401
    provider.leeway_seconds = 60
    again = await by_hand.tokens(refresh_token=given["refresh_token"])
    assert (await opened_with(provider, again["access_token"])).status_code == 200
    assert (await by_hand.tokens(refresh_token=given["refresh_token"]))["error"] == "invalid_grant"


async def test_after_all_was_revoked_the_person_has_to_consent_again(provider: OAuthProvider, by_hand: ByHand) -> None:
    """No code and no refresh token is valid; clients stay registered."""
    given, code = await by_hand.tokens(code=await by_hand.code()), await by_hand.code()
    async with signing_in(provider.url) as http:
        await http.post(provider.url, json=OPEN)
        provider.revoke()
        assert (await by_hand.tokens(code=code))["error"] == "invalid_grant"
        assert (await by_hand.tokens(refresh_token=given["refresh_token"]))["error"] == "invalid_grant"
        provider.requests.clear()
        assert (await http.post(provider.url, json=OPEN)).status_code == 200
    assert provider.requests == ["POST /mcp", *METADATA, "GET /authorize", "POST /token", "POST /mcp"]
    assert provider.connections == 2


async def test_a_valid_token_may_be_rejected(provider: OAuthProvider, by_hand: ByHand) -> None:
    """An invalid one is refused as ever, and so is the name of another host."""
    token = (await by_hand.tokens(code=await by_hand.code()))["access_token"]
    assert (await opened_with(provider, token, Host="evil.example")).status_code == 421
    provider.mcp_status = 403
    assert [(await opened_with(provider, it)).status_code for it in (token, "invented")] == [403, 401]
    assert provider.connections == 0


async def test_the_provider_leaves_nothing_behind_and_comes_back_at_its_port() -> None:
    """Even if a stream is open when the token expires; what the stream delivered stays valid."""
    before, handler = asyncio.all_tasks(), signal.getsignal(signal.SIGINT)
    async with AsyncExitStack() as stack:
        async with OAuthProvider() as provider:
            http = await stack.enter_async_context(signing_in(provider.url))
            session = {"Mcp-Session-Id": (await http.post(provider.url, json=OPEN)).headers["mcp-session-id"]}
            stream = await stack.enter_async_context(http.stream("GET", provider.url, headers=session))
            assert stream.status_code == 200
            assert signal.getsignal(signal.SIGINT) is handler
        with pytest.raises(httpx2.ConnectError):
            await http.post(provider.url, json=OPEN)
        async with provider:
            assert (await http.post(provider.url, json=OPEN)).status_code == 200
    assert provider.requests.count("GET /authorize") == 1
    left = {getattr(task.get_coro(), "__qualname__", "") for task in asyncio.all_tasks() - before}
    # The library of server-sent events has one task a loop, which ends with the loop.
    assert left <= {"_shutdown_watcher"}
