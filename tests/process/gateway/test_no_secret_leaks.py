"""No secret reaches an agent or the log, even if servers repeat it."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import socket
import sys
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, quote_plus

import pytest
from hypothesis import HealthCheck, Phase, example, given
from hypothesis import strategies as st
from mcp.shared.auth import OAuthClientInformationFull
from pydantic import AnyUrl

from callability.gateway.catalog.attempt import ConsentAnswer, ConsentRequest
from callability.gateway.config.config import load_config
from callability.gateway.runtime.runtime import GatewayOptions, open_gateway
from callability.gateway.tools.dispatch import Gateway
from support.catalog_people import Person
from support.checkout import UPSTREAMS
from support.drawing import drawing
from support.local_policy import local_policy
from support.upstreams.bad_http import BadHttp, Step, refusal, reply, result
from support.upstreams.oauth_provider import OAuthProvider, browse

ECHOING = str(UPSTREAMS / "echoing_stdio.py")
MARK = "Zq7#xW"
IN_URL = "Kp4~vY"
FOUND = (
    MARK,
    IN_URL,
    quote(MARK, safe=""),
    quote(quote(MARK, safe=""), safe=""),
    base64.b64encode(b"user:Zq7#").decode(),
)
"""What each secret begins with, on each of its lines, as it is, in a URL, and in basic authentication."""
STDIO = (
    "exit",
    "error",
    "shape",
    "version",
    "name",
    "list",
    "result",
    "notification",
    "request",
    "response",
    "garbage",
)

CLIENT_SECRET = f"{MARK}%41+&=?"
SECRET_KEYS = ("state", "code", "code_verifier", "refresh_token", "client_secret")

_ANY = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\n\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029")
)
_LINE = _ANY.map(lambda text: MARK + text[:20])
LINES = st.lists(_LINE, min_size=1, max_size=3).map("\n".join)
# Values that a variable may have inside a URL, so that the URL stays valid.
PARTS = st.text(st.sampled_from("ab1%é&'()*+,;=:!|<>\"{}^")).map(lambda text: IN_URL + text[:20])
HEADERS = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=20).map(MARK.__add__)


def _said(server: BadHttp, request: Mapping[str, Any]) -> str:
    return f"{server.head} {json.dumps(server.head)} {request}".replace("\r\n", " ")


def _http(how: str, server: BadHttp) -> None:
    """Let a server fail in one way, with all secrets that it was given."""

    def answer(request: dict[str, Any]) -> Step:
        said = _said(server, request)
        body = said.encode()
        error = {"jsonrpc": "2.0", "id": request.get("id"), "error": {"code": -32000, "message": said, "data": said}}
        shown = quote(said, safe=" #")[:2000]
        events = "".join(f"event: message\r\ndata: {each}\r\n\r\n" for each in (said, json.dumps({"jsonrpc": said})))
        match how.split():
            case ["status", number]:
                return reply(body, status=f"{number} {shown}", extra=f'WWW-Authenticate: Bearer error="{shown}"\r\n')
            case ["rpc", number]:
                return reply(json.dumps(error).encode(), status=f"{number} {shown}")
            case ["html"]:
                return reply(body, kind="text/html")
            case ["cut"]:
                return reply(json.dumps(error).encode()[:-5])
            case ["json"]:
                return reply(json.dumps([said]).encode())
            case ["kind"]:
                return reply(body, kind=shown)
            case ["events"]:
                return reply(events.encode(), kind="text/event-stream")
            case ["redirect"]:
                return reply(b"", status="302 Found", extra=f"Location: http://127.0.0.1:1/?{quote(said)}\r\n")
            case ["version"]:
                server_info = {"name": said, "version": said}
                opening = {"protocolVersion": said, "capabilities": {"tools": {}}, "serverInfo": server_info}
                return reply(result(request, opening))
            case _:
                return refusal(request, said)

    place, _, how = how.partition(" ")
    if place == "opening":
        server.opening = answer
    elif place == "listing":
        server.listing = answer
    else:
        server.answers["tell"] = answer


HTTP = (
    *(f"opening {how}" for how in ("status 401", "status 403", "status 404", "status 500", "rpc 500", "rpc 400")),
    *(f"opening {how}" for how in ("html", "cut", "json", "kind", "events", "redirect", "version", "refusal")),
    *(f"listing {how}" for how in ("status 500", "json", "events", "refusal", "redirect")),
    *(f"calling {how}" for how in ("status 401", "status 500", "rpc 500", "json", "events", "kind", "cut", "refusal")),
)


SHARES = 4
"""It distinguishes the servers among so many tests."""


def _http_entry(url: str, secrets: Mapping[str, str], part: str) -> dict[str, Any]:
    user, query = quote(secrets["user"], safe=""), quote(secrets["query"], safe="")
    url = url.replace("//", f"//user:{user}@") + f"?any={query}&other={part}"
    return {"url": url, "headers": {"X-Key": secrets["header"], "Authorization": f"Bearer {secrets['header']}"}}


def _filled(url: str) -> dict[str, Any]:
    """Return an entry in which the secrets are variables, one of them in the path."""
    url = url.replace("//", "//user:${USER_PART}@").replace("/mcp", "/mcp/a${PATH_PART}/b")
    return {"url": f"{url}?any=a${{QUERY_PART}}", "headers": {"X-Key": "a${HEADER}", "X-Other": "Token ${HEADER}"}}


def _stdio_entry(how: str, env: str, argument: str) -> dict[str, Any]:
    return {"command": sys.executable, "args": [ECHOING, how, "--token", argument], "env": {"ANY": env}}


class Browsing(Person):
    """A caller whose user opens the page at once."""

    async def ask(self, question: ConsentRequest) -> ConsentAnswer | None:
        """Follow all redirects to the end."""
        await browse(question.url)
        return ConsentAnswer.ACCEPTED


async def _all_answers(gateway: Gateway, names: Iterable[str], meanwhile: Callable[[], object] = bool) -> list[str]:
    """Send a gateway every kind of request, and return all answers, as JSON and as text."""
    written: list[str] = []

    async def ask(tool: str, **arguments: object) -> None:
        answer = await gateway.answer(tool, arguments, dialogs=Browsing("waiting"))
        written.extend((answer.model_dump_json(), str(answer)))

    async def ask_all() -> None:
        await ask("retrieve_tools", query="tell me")
        await ask("retrieve_tools", query="tell me", include_disabled=True)
        await ask("upstream_servers")
        await ask("search_servers")
        await ask("search_servers", query="server")
        for name in names:
            await ask("upstream_servers", operation="get", name=name)
            await ask("call_tool", name=f"{name}:tell", arguments={"any": 1})

    await ask_all()
    await asyncio.gather(*(ask("enable_server", id=name) for name in names))
    meanwhile()
    await ask_all()
    await asyncio.gather(*(ask("disable_server", id=name) for name in names))
    return written


def _unused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@pytest.mark.parametrize("share", range(SHARES))
@drawing(
    2,
    # Each example runs a dozen servers: shrinking a failure is not worth the minutes.
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
    deadline=None,
)
@given(
    secrets=st.fixed_dictionaries({"user": LINES, "query": LINES, "env": LINES, "argument": LINES, "header": HEADERS}),
    parts=st.lists(PARTS, min_size=3, max_size=3),
)
@example(
    secrets=dict.fromkeys(["user", "query", "env", "argument", "header"], f"{MARK}%41"),
    parts=[f"{IN_URL}{part}^{{\u00f6%" for part in "abc"],
)
def test_no_secret_is_in_an_answer_or_in_the_log(
    caplog: pytest.LogCaptureFixture,
    tmp_path_factory: pytest.TempPathFactory,
    secrets: dict[str, str],
    parts: list[str],
    share: int,
) -> None:
    """Of servers of the config and of the catalog that fail in many ways and repeat all secrets."""
    servers: dict[str, Any] = {}
    catalog: dict[str, Any] = {}
    path = tmp_path_factory.getbasetemp() / "mcp_config.json"

    async def story() -> list[str]:
        async with AsyncExitStack() as stack:
            urls = {"refused": f"http://127.0.0.1:{_unused_port()}/mcp"}
            for how in HTTP[share::SHARES]:
                server = BadHttp()
                _http(how, server)
                await stack.enter_async_context(server.listening())
                urls[how.replace(" ", "-")] = server.url
            for how, url in urls.items():
                servers[how], catalog[f"c-{how}"] = _http_entry(url, secrets, parts[2]), _filled(url)
            for how in [*urls][1:3]:
                servers[f"v-{how}"] = _filled(urls[how])
            for how in STDIO[share::SHARES]:
                servers[f"io-{how}"] = _stdio_entry(how, secrets["env"], secrets["argument"])
                catalog[f"cio-{how}"] = _stdio_entry(how, "x ${ENV}", "${ARGUMENT}")
                plain = {"args": [ECHOING, how, "${ARGUMENT}"]}
                servers[f"vio-{how}"] = _stdio_entry(how, "x ${ENV:-none}", "") | plain
            catalog["invalid"] = {"url": "http://127.0.0.1/${HEADER}/${ENV}", "headers": {"X": "${ENV}"}}
            path.write_text(json.dumps({"mcpServers": servers, "catalog": catalog, "deadlines": {"open_seconds": 5}}))
            gateways = await stack.enter_async_context(
                open_gateway(GatewayOptions(load_config(path), None, local_policy()))
            )
            return await _all_answers(gateways.gateway_for_request(""), (*servers, *catalog))

    with pytest.MonkeyPatch.context() as patch:
        names = ("HEADER", "ENV", "ARGUMENT", "USER_PART", "PATH_PART", "QUERY_PART")
        for name, value in zip(names, (secrets["header"], secrets["env"], secrets["argument"], *parts), strict=True):
            patch.setenv(name, value)
        written = _written(caplog, story())
    found = [line for line in written if any(mark in line for mark in FOUND)]
    assert not found, "\n".join(found)
    assert any("***" in line for line in written)


def _written(caplog: pytest.LogCaptureFixture, story: Coroutine[Any, Any, list[str]]) -> list[str]:
    """Return all lines that were answered or logged: of our own loggers every line, of others from INFO on."""
    caplog.clear()
    with caplog.at_level(logging.INFO), caplog.at_level(logging.DEBUG, "callability"):
        written = asyncio.run(story)
        return [*written, *caplog.text.splitlines()]


def _misbehave(provider: OAuthProvider, way: str) -> None:
    match way:
        case "decline" | "fail":
            provider.person = way
        case "wrong state":
            provider.wrong_state = True
        case "/register" | "/token" | "/mcp":
            provider.echoing.add(way)
        case "expired":
            provider.token_seconds = 1


def _later(provider: OAuthProvider, way: str) -> None:
    match way:
        case "later /mcp":
            provider.echoing.add("/mcp")
        case "revoked":
            provider.revoke()
        case "expired":
            provider.expire()
            provider.echoing.add("/token")


@pytest.mark.parametrize(
    "way",
    ["decline", "fail", "wrong state", "/register", "/token", "/mcp", "later /mcp", "revoked", "expired", "well"],
)
def test_nothing_of_an_authorization_is_in_an_answer_or_in_the_log(
    caplog: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """No state, code, verifier, token or client secret, whether the authorization fails at any point or succeeds."""
    monkeypatch.setenv("CLIENT", CLIENT_SECRET)
    path = tmp_path / "mcp_config.json"
    secrets = [CLIENT_SECRET, quote(CLIENT_SECRET), quote_plus(CLIENT_SECRET)]

    async def story() -> list[str]:
        async with OAuthProvider(tools=("tell",)) as provider:
            _misbehave(provider, way)
            known = {"client_id": "gateway", "client_secret": "${CLIENT}", "redirect_port": _unused_port()}
            uri = AnyUrl(f"http://127.0.0.1:{known['redirect_port']}/callback")
            client = OAuthClientInformationFull(
                client_id="gateway",
                client_secret=CLIENT_SECRET,
                redirect_uris=[uri],
                token_endpoint_auth_method="client_secret_post",
            )
            await provider.register_client(client)
            catalog = {"new": {"url": provider.url, "oauth": {}}, "known": {"url": provider.url, "oauth": known}}
            # The gateway keeps waiting if a provider sends a person back with a wrong state.
            deadlines = {"dialog_seconds": 1} if way == "wrong state" else {}
            path.write_text(json.dumps({"mcpServers": {}, "catalog": catalog, "deadlines": deadlines}))
            async with open_gateway(GatewayOptions(load_config(path), None, local_policy())) as gateways:
                written = await _all_answers(gateways.gateway_for_request(""), catalog, lambda: _later(provider, way))
            heard = [parse_qs(each) for each in provider.heard]
            secrets.extend(value for each in heard for key in SECRET_KEYS for value in each.get(key, []))
            secrets.extend(provider.given)
        return written

    written = _written(caplog, story())
    found = [line for line in written if any(secret in line for secret in secrets)]
    assert not found, "\n".join(found)
    assert len(set(secrets)) > 3
    assert any("Not connected: " in line for line in written) == (
        way not in ("later /mcp", "revoked", "expired", "well")
    )
    assert any("***" in line for line in written) == (way == "later /mcp")
