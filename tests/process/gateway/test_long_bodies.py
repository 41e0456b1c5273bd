"""Bodies that the libraries read whole, of an authorization or a redirect: each is limited as it is once decoded."""

from __future__ import annotations

import asyncio
import gzip
import json
from typing import Any

import pytest
from mcp.shared.auth import AuthorizationCodeResult

from callability.gateway.upstream.authorization import Authorization, AuthorizationFailed
from callability.gateway.upstream.failure import MESSAGE_BYTES, UpstreamError
from callability.gateway.upstream.target import HttpTarget
from callability.gateway.upstream.upstream import Upstream
from support.upstreams.bad_http import BadHttp, Step, reply
from support.waiting import SECONDS, becomes

pytestmark = pytest.mark.anyio

LONG = bytes(MESSAGE_BYTES + 1)
FORMS = {"plain": (LONG, ""), "gzip": (gzip.compress(LONG), "Content-Encoding: gzip\r\n")}
UNAUTHORIZED = "401 Unauthorized"


@pytest.fixture
def anyio_backend() -> str:
    """The gateway runs on asyncio."""
    return "asyncio"


class Provider(BadHttp):
    """A server that asks for an authorization and is its own provider; one of its answers is too long.

    With `elsewhere` that answer is a redirect.
    """

    def __init__(self, long: str, form: str, *, elsewhere: str = "") -> None:
        super().__init__()
        self.paths: list[str] = []
        self._long = long
        self._elsewhere = elsewhere
        self._body, self._extra = FORMS[form]

    def _answer(self, head: str, request: dict[str, Any]) -> Step:
        path = head.split()[1].removeprefix("/.well-known")
        self.paths.append(path)
        status = UNAUTHORIZED if path == "/mcp" else "201 Created" if path == "/register" else "200 OK"
        if path.startswith(self._long):
            if self._elsewhere:
                extra = f"{self._extra}Location: {self._elsewhere}\r\n"
                return reply(self._body, status="307 Temporary Redirect", extra=extra)
            return reply(self._body, status=status, extra=self._extra)
        origin = self.url.removesuffix("/mcp")
        if path.startswith("/oauth-protected-resource"):
            return reply(json.dumps({"resource": self.url, "authorization_servers": [origin]}).encode())
        if path.startswith("/oauth-authorization-server"):
            places = {f"{name}_endpoint": f"{origin}/{name}" for name in ("authorization", "token")}
            value = {"issuer": origin, "registration_endpoint": f"{origin}/register", **places}
            return reply(json.dumps({**value, "response_types_supported": ["code"]}).encode())
        return reply(b"", status=status)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "path", ["/mcp", "/oauth-protected-resource", "/oauth-authorization-server", "/register"], ids=lambda it: it[1:]
)
async def test_an_answer_that_is_too_long_ends_an_authorization(path: str, form: str) -> None:
    """No answer is read after it, and no person is asked."""
    await _ends_authorization(Provider(path, form), path)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "path", ["/oauth-protected-resource", "/oauth-authorization-server", "/register"], ids=lambda it: it[1:]
)
async def test_a_redirect_that_is_too_long_ends_an_authorization(path: str, form: str) -> None:
    """It is not followed."""
    await _ends_authorization(Provider(path, form, elsewhere="/elsewhere"), path)


async def _ends_authorization(server: Provider, path: str) -> None:
    async def ask(_: str) -> AuthorizationCodeResult:
        raise AuthorizationFailed("asks a person")

    async with server.listening(), asyncio.timeout(SECONDS):
        target = HttpTarget(server.url, authorization=Authorization(server.url, "http://127.0.0.1:1/", ask))
        it = Upstream("x", target, open_seconds=SECONDS)
        try:
            with pytest.raises(UpstreamError) as caught:
                await it.connect()
        finally:
            await it.close()
    assert str(caught.value) == "`x` sent a message of more than 16 MiB; the call was not sent"
    assert server.paths[-1].startswith(path)


class Moved(BadHttp):
    """A server whose stream of announcements is elsewhere, as a redirect with a long body says."""

    def __init__(self, form: str) -> None:
        super().__init__(session="one")
        self.paths: list[str] = []
        self._body, self._extra = FORMS[form]

    def _answer(self, head: str, request: dict[str, Any]) -> Step:
        method, path, _ = head.split(maxsplit=2)
        if method != "get":
            return super()._answer(head, request)
        self.paths.append(path)
        extra = f"{self._extra}Location: /elsewhere\r\n"
        return reply(self._body, status="307 Temporary Redirect", extra=extra if path == "/mcp" else "")


@pytest.mark.parametrize("form", FORMS)
async def test_a_redirect_of_the_announcements_with_a_body_that_is_too_long_is_not_followed(form: str) -> None:
    """The server stays connected."""
    server = Moved(form)
    async with server.listening(), asyncio.timeout(SECONDS):
        it = Upstream("x", HttpTarget(server.url), open_seconds=SECONDS)
        await it.connect()

        async def requested() -> bool:
            return server.paths.count("/mcp") > 1

        try:
            await becomes(requested, True)
            assert it.state == "connected"
        finally:
            await it.close()
    assert set(server.paths) == {"/mcp"}
