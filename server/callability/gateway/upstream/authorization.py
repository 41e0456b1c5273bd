"""The authorization of a connection by a person, through OAuth; each connection has its own, which ends with it.

The page on loopback to which a provider sends the person back, for one authorization.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, OAuthRegistrationError, OAuthTokenError
from mcp.client.auth.utils import extract_field_from_www_auth
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

from callability.contract.vocabulary import LoadFailure, LoadPhase
from callability.gateway.upstream.failure import Failure
from callability.gateway.upstream.http_response import Handshake, limit_body
from callability.process.uvicorn_server import UvicornServer

HOST = "127.0.0.1"
PATH = "/callback"
GRACE = 1
"""Seconds for sending the page completely."""
_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'",
}
_PAGE = "<!doctype html><html lang=en><meta charset=utf-8><title>callability</title><p>{}</p></html>"


class ProviderRefused(Exception):
    """The provider sent the person back without a code; `declined` says that the person refused."""

    def __init__(self, *, declined: bool) -> None:
        super().__init__("the provider gave no code")
        self.declined = declined


class Redirect:
    """Listens from the start, so that its address is known; serves while an authorization is pending."""

    def __init__(self, port: int | None) -> None:
        self._socket = socket.create_server((HOST, port or 0))
        self._came = asyncio.get_running_loop().create_future()
        self._state = ""
        self._server = UvicornServer(
            Starlette(routes=[Route(PATH, self._page)]),
            log_level="warning",
            access_log=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=GRACE,
        )
        self._serving: asyncio.Task[None] | None = None

    @property
    def uri(self) -> str:
        """The address that the provider sends the person back to."""
        return f"http://{HOST}:{self._socket.getsockname()[1]}{PATH}"

    async def awaited(self, state: str) -> AuthorizationCodeResult:
        """Serve until the person comes back with this state, and return what the provider sent with them.

        Raises:
            ProviderRefused: it sent no code.
        """
        self._state = state
        if self._serving is None:
            self._serving = asyncio.create_task(self._server.serve(sockets=[self._socket]), name="redirect")
        await asyncio.wait({self._came})
        result: AuthorizationCodeResult = self._came.result()
        return result

    async def close(self) -> None:
        """Stop listening, and return when nothing is left; a page that is being sent is sent completely."""
        if self._serving is not None:
            self._server.should_exit = True
            await asyncio.wait({self._serving})
        self._socket.close()
        # An error after the last caller has gone is not worth a log line.
        _ = self._came.done() and self._came.exception()

    async def _page(self, request: Request) -> HTMLResponse:
        given = request.query_params
        if not self._state or given.get("state") != self._state:
            return _page("This address belongs to no authorization that is under way.", 400)
        code, error = given.get("code"), given.get("error")
        if not self._came.done():
            if code and not error:
                self._came.set_result(AuthorizationCodeResult(code=code, state=self._state, iss=given.get("iss")))
            else:
                self._came.set_exception(ProviderRefused(declined=error == "access_denied"))
        outcome = "The server is not authorized." if error or not code else "The authorization has arrived."
        return _page(f"{outcome} You can close this page and go back to your agent.", 200)


def _page(text: str, status: int) -> HTMLResponse:
    return HTMLResponse(_PAGE.format(text), status, _HEADERS)


Ask = Callable[[str], Awaitable[AuthorizationCodeResult]]
"""Sends a person to a URL, and returns what the provider sent back with them."""

TOKENS_KEPT = 8
"""Tokens of one connection that are still masked after others have replaced them."""

OF_PROVIDER = "callability.of_provider"
"""The extension of a request that goes to the provider, true once the connection stands."""
LONG_AGO = 1.0
"""A time in the past; the library takes zero for no time."""

# It writes states, codes and the provider's answers to the log.
logging.getLogger("mcp.client.auth").setLevel(logging.CRITICAL)


class AuthorizationFailed(Exception):
    """An authorization failed, or did not help: then `status` is the server's answer to it."""

    def __init__(self, words: str, status: int | None = None) -> None:
        super().__init__(words)
        kind = LoadFailure.OTHER if status is None else LoadFailure.HTTP_STATUS
        self.failure = Failure(
            words, type(self).__name__, status=status, executed=False, kind=kind, phase=LoadPhase.RESPONSE
        )


class NotRenewed(Exception):
    """The provider gave no other token for one that has expired, and may do so later: the authorization stands."""

    def __init__(self, why: str) -> None:
        words = f"could not renew its authorization: its provider {why}"
        super().__init__(words)
        self.failure = Failure(words, type(self).__name__, executed=False, phase=LoadPhase.REQUEST)


def is_not_renewed(failure: Failure) -> bool:
    """Say whether a request was not sent because its token could not be renewed."""
    return failure.exception == NotRenewed.__name__


class Authorization(OAuthClientProvider):
    """Gets a token when the server asks for one, but only once: a person who has declined is not asked again.

    `ask` raises `AuthorizationFailed` if no session can show a dialog, or the person declines. Once the connection
    stands, only the provider ends the authorization, by `invalid_grant`: any other refusal is of one request.
    """

    def __init__(
        self, url: str, redirect_uri: str, ask: Ask, *, client_id: str | None = None, client_secret: str | None = None
    ) -> None:
        metadata = OAuthClientMetadata(
            client_name="callability gateway",
            redirect_uris=[AnyUrl(redirect_uri)],
            grant_types=["authorization_code", "refresh_token"],
        )
        self._kept = _Kept(_client(metadata, client_id, client_secret))
        super().__init__(url, metadata, self._kept, self._sent_to, self._called_back)
        self._ask = ask
        self._url = ""
        self._stands = False
        self._failed: AuthorizationFailed | None = None

    @property
    def secrets(self) -> tuple[str, ...]:
        """What is to be masked: the tokens, and the client's secret."""
        return self._kept.secrets

    def stand(self) -> None:
        """Ask nobody from now on: the connection stands."""
        self._stands = True

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Limit each body that is read on the way, even that of a redirect, which the library follows by itself."""
        flow = super().async_auth_flow(request)
        try:
            outgoing = await anext(flow)
            while True:
                response = yield outgoing
                if outgoing is not request or _refuses_token(response):
                    limit_body(response)
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()

    async def _auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        if self._failed is not None:
            raise self._failed
        # The library holds a lock until each answer has arrived, so that calls would wait for one another.
        sent = self.context.current_tokens
        if sent is None or self.context.is_token_valid():
            if sent is not None:
                self._add_auth_header(request)
            response = yield request
            if not _refuses_token(response) or (self._stands and self._is_final(response, sent)):
                return
            # With an expired token the library asks the provider for another one before it asks a person.
            if response.status_code == 401 and self.context.current_tokens is sent and sent is not None:
                self.context.token_expiry_time = LONG_AGO
        flow = super()._auth_flow(request)
        try:
            outgoing = await anext(flow)
            renews = outgoing is not request
            while True:
                if outgoing is not request:
                    outgoing.extensions = {**request.extensions, "trace": Handshake().heard, OF_PROVIDER: self._stands}
                response = yield outgoing
                if renews:
                    await _check_renewal(response)
                elif self._stands and _refuses_token(response):
                    return
                renews = False
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            return
        except (OAuthFlowError, ValidationError, AuthorizationFailed) as error:
            self._failed = error if isinstance(error, AuthorizationFailed) else AuthorizationFailed(_words(error))
            raise self._failed from None
        finally:
            await flow.aclose()

    def _is_final(self, response: httpx2.Response, sent: OAuthToken | None) -> bool:
        """Say whether no other token can be had for a request that was refused, without a person."""
        is_replaced = self.context.current_tokens is not sent
        return response.status_code == 403 or not (is_replaced or self.context.can_refresh_token())

    async def _sent_to(self, url: str) -> None:
        self._url = url

    async def _called_back(self) -> AuthorizationCodeResult:
        return await self._ask(self._url)


class _Kept:
    """The client and its tokens, in memory only."""

    def __init__(self, client: OAuthClientInformationFull | None) -> None:
        self._client = client
        self._tokens: OAuthToken | None = None
        self._given: deque[str] = deque(maxlen=TOKENS_KEPT)

    @property
    def secrets(self) -> tuple[str, ...]:
        secret = self._client.client_secret if self._client else None
        return (*self._given, *([secret] if secret else ()))

    async def get_tokens(self) -> OAuthToken | None:
        return self._tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._tokens = tokens
        self._given.extend(token for token in (tokens.access_token, tokens.refresh_token) if token)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._client = client_info


def _client(
    metadata: OAuthClientMetadata, client_id: str | None, client_secret: str | None
) -> OAuthClientInformationFull | None:
    """Return the client that the provider knows; without one the gateway registers itself."""
    if client_id is None:
        return None
    method = "none" if client_secret is None else "client_secret_post"
    return OAuthClientInformationFull(
        client_id=client_id,
        client_secret=client_secret,
        redirect_uris=metadata.redirect_uris,
        token_endpoint_auth_method=method,
    )


async def _check_renewal(response: httpx2.Response) -> None:
    """Raise unless a response has another token."""
    content = await response.aread()
    if response.status_code == 200:
        try:
            OAuthToken.model_validate_json(content)
        except ValidationError:
            raise NotRenewed("answered without a token") from None
    elif response.status_code < 500 and _error_in(content) == "invalid_grant":
        raise AuthorizationFailed("needs an authorization again")
    else:
        raise NotRenewed(f"answered with HTTP status {response.status_code}")


def _error_in(content: bytes) -> object:
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return answer.get("error") if isinstance(answer, dict) else None


def _refuses_token(response: httpx2.Response) -> bool:
    if response.status_code == 403:
        return extract_field_from_www_auth(response, "error") == "insufficient_scope"
    return response.status_code == 401


def _words(error: Exception) -> str:
    if isinstance(error, OAuthRegistrationError):
        return "could not be authorized: its provider does not register this gateway"
    if isinstance(error, OAuthTokenError):
        return "could not be authorized: its provider gave no token"
    return "could not be authorized: its provider does not answer as OAuth asks"
