"""The authorization of a connection by a person, through OAuth: by a stored login, and otherwise by asking.

The provider sends the person back to a page on loopback, which is open for one authorization.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

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
from callability.gateway.upstream.login_store import LockHeld, Login, StoredLogin, StoreUnavailable, Waits
from callability.process.logs import fields
from callability.process.web_server import UvicornServer

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

    async def wait_for_person(self, state: str) -> AuthorizationCodeResult:
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
NOWHERE = "http://127.0.0.1/callback"
"""The redirect address of an authorization for which nobody is asked."""
LOCK_SECONDS = 600.0
"""How long another process may hold the lock of a login; the deadlines of openings and calls are usually shorter."""
LONG_AGO = 1.0
"""A time in the past; the library takes zero for no time."""

_DEFERRED = frozenset({408, 429})
_UNKNOWN_CLIENT = frozenset({"invalid_client", "unauthorized_client"})
_logger = logging.getLogger("callability.gateway.upstream")
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

    def __init__(self, why: str, kind: LoadFailure = LoadFailure.OTHER, status: int | None = None) -> None:
        words = f"could not renew its authorization: its provider {why}"
        super().__init__(words)
        self.failure = Failure(
            words, type(self).__name__, status=status, executed=False, kind=kind, phase=LoadPhase.REQUEST
        )


def is_not_renewed(failure: Failure) -> bool:
    """Say whether a request was not sent because its token could not be renewed."""
    return failure.exception == NotRenewed.__name__


class Authorization(OAuthClientProvider):
    """Gets a token when the server asks for one, but only once: a person who has declined is not asked again.

    `ask` raises `AuthorizationFailed` if no session can show a dialog, or the person declines. Without it nobody is
    asked, and `AuthorizationFailed` has the `remedy`. Once the connection stands, only the provider ends the
    authorization, by `invalid_grant`: any other refusal is of one request. Tokens are read from, and written to,
    `stored`, under its lock: of many processes one asks, and one renews. With `only_if_offered`, a refusal that says
    nothing of OAuth is left as it is. `waits` is called while another process has the lock.
    """

    def __init__(
        self,
        url: str,
        redirect_uri: str,
        ask: Ask | None,
        *,
        client_id: str | None = None,
        client_secret: str | None = None,
        stored: StoredLogin | None = None,
        remedy: str = "",
        only_if_offered: bool = False,
        waits: Waits | None = None,
    ) -> None:
        metadata = OAuthClientMetadata(
            client_name="callability gateway",
            redirect_uris=[AnyUrl(redirect_uri)],
            grant_types=["authorization_code", "refresh_token"],
        )
        self._given = _client(metadata, client_id, client_secret)
        self._kept = _Kept(self._given, self._store)
        super().__init__(url, metadata, self._kept, self._sent_to, self._called_back)
        self._ask = ask
        self._remedy = remedy
        self._only_if_offered = only_if_offered
        self._waits = waits
        self._url = ""
        self._stands = False
        self._failed: AuthorizationFailed | None = None
        self._stored = stored
        self._seen: Login | None = None
        """The record as it was last read or written."""
        self._registered_at = redirect_uri
        self._is_new = False
        self.unstored = ""
        """Why the login cannot be stored, if that was tried."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """What is to be masked: the tokens, and the client's secret."""
        return self._kept.secrets

    @property
    def may_ask(self) -> bool:
        """Whether a person may be asked on the way."""
        return self._ask is not None

    def begin(self) -> None:
        """Forget that a connection stood: another one is opened."""
        self._stands = False

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

    async def _auth_flow(  # noqa: PLR0912  # the library drives one generator, and a part of it could return nothing
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        if self._failed is not None:
            raise self._failed
        if not self._initialized:
            await self._initialize()
        # The library holds a lock until each answer has arrived, so that calls would wait for one another.
        sent, refused = self.context.current_tokens, None
        if sent is None or self.context.is_token_valid():
            if sent is not None:
                self._add_auth_header(request)
            response = yield request
            if not _refuses_token(response) or (self._stands and self._is_final(response, sent)):
                return
            if sent is None and self._only_if_offered and not _offers_login(response):
                return
            refused = sent if response.status_code == 401 else None
        if self._ask is None and not self.context.can_refresh_token():
            # Nothing can be renewed: only the login of somebody helps.
            await self._take_stored()
            if not self.context.is_token_valid() or (refused is not None and self._has(refused)):
                raise self._without_person(401)
        before = self._url
        for is_first in (True, False):
            async with self._alone():
                is_refused = refused is not None and self._has(refused)
                # With an expired token the library asks the provider for another one before it asks a person.
                if is_refused and is_first:
                    self.context.token_expiry_time = LONG_AGO
                if self._ask is None and not (self.context.is_token_valid() or self.context.can_refresh_token()):
                    raise self._without_person(401)
                if is_refused or not self.context.is_token_valid():
                    is_answered = False
                    flow = self._library_flow(request)
                    try:
                        outgoing = await anext(flow)
                        while True:
                            response = yield outgoing
                            is_answered = outgoing is request
                            outgoing = await flow.asend(response)
                    except StopAsyncIteration:
                        if is_answered:
                            return
                    finally:
                        await flow.aclose()
            # Not under the lock: an answer may take long.
            self._add_auth_header(request)
            response = yield request
            if not _refuses_token(response) or self._stands or self._url != before:
                return
            if self._ask is None:
                raise self._without_person(response.status_code)
            refused = self.context.current_tokens

    async def _library_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Renew the token, or ask a person for one, as the library does; it ends once there is a token to send."""
        flow = super()._auth_flow(request)
        try:
            outgoing = await anext(flow)
            renews = outgoing is not request
            while True:
                if outgoing is not request:
                    extensions = {"trace": Handshake().note_event, OF_PROVIDER: self._stands or renews}
                    outgoing.extensions = {**request.extensions, **extensions}
                response = yield outgoing
                has_token = outgoing is not request
                if renews:
                    has_token = await self._is_renewed(response)
                elif _refuses_token(response):
                    if self._stands:
                        return
                    if self._ask is None:
                        raise self._without_person(response.status_code)
                    if outgoing is request:
                        self._forget_client_of_other_address()
                renews = False
                outgoing = await flow.asend(response)
                if outgoing is request and has_token:
                    return
        except StopAsyncIteration:
            return
        except (OAuthFlowError, ValidationError, AuthorizationFailed) as error:
            failed = error if isinstance(error, AuthorizationFailed) else AuthorizationFailed(_words(error))
            # Without a person, the next opening may find that somebody has logged in.
            self._failed = failed if self.may_ask else None
            raise failed from None
        finally:
            await flow.aclose()

    def _has(self, tokens: OAuthToken) -> bool:
        current = self.context.current_tokens
        return current is not None and current.access_token == tokens.access_token

    async def _initialize(self) -> None:
        self.context.client_info = self.context.client_info or self._given
        self._initialized = True
        await self._take_stored()

    @asynccontextmanager
    async def _alone(self) -> AsyncGenerator[None]:
        """Hold the lock of the stored login, and use what another process has stored meanwhile."""
        async with AsyncExitStack() as stack:
            if self._stored is not None:
                try:
                    await stack.enter_async_context(self._stored.lock(LOCK_SECONDS, self._waits))
                except LockHeld:
                    raise NotRenewed("is asked by another process, which does not end", LoadFailure.TIMEOUT) from None
                except StoreUnavailable as error:
                    self._warn(error)
                await self._take_stored()
            yield

    async def _take_stored(self) -> None:
        """Use the stored login if it is another one than that which was seen last."""
        if self._stored is None:
            return
        try:
            login = await self._stored.read()
        except StoreUnavailable as error:
            self._warn(error)
            return
        if login is not None and not self._is_of_this_client(login):
            login = None
        if login == self._seen:
            return
        self._seen = login
        context = self.context
        if login is None:
            # Somebody logged out.
            context.clear_tokens()
            return
        context.current_tokens, context.token_expiry_time = login.tokens, login.expires_at
        context.oauth_metadata, context.protected_resource_metadata = login.metadata, login.resource
        context.auth_server_url = login.issuer if login.resource is not None else None
        client = self._given or login.client
        # Bound to its issuer, the library sends it, and the tokens, to no other one.
        context.client_info = client.model_copy(update={"issuer": login.issuer})
        self._registered_at = login.redirect_uri
        self._kept.mask(login.tokens, context.client_info)

    def _is_of_this_client(self, login: Login) -> bool:
        """Say whether a login is of this address and of the client that the config names."""
        client = None if login.registered else login.client.client_id
        return login.url == self.context.server_url and client == (self._given and self._given.client_id)

    async def _store(self) -> None:
        """Write what the library has: it calls this as soon as it has other tokens."""
        context, issuer = self.context, self._expected_issuer()
        if self._stored is None or context.client_info is None:
            return
        client = context.client_info.model_copy(update={"issuer": context.client_info.issuer or issuer})
        context.client_info = client
        login = Login(
            url=context.server_url,
            issuer=issuer,
            metadata=context.oauth_metadata,
            resource=context.protected_resource_metadata,
            redirect_uri=self._registered_at,
            client=client,
            registered=self._given is None,
            tokens=context.current_tokens,
            expires_at=context.token_expiry_time,
        )
        if self._seen is not None and not self._is_new:
            login = login.model_copy(update={"id": self._seen.id})
        self._is_new = False
        try:
            await self._stored.write(login)
        except StoreUnavailable as error:
            self._warn(error)
        else:
            self._seen = login

    def _warn(self, error: StoreUnavailable) -> None:
        if self._stored is not None and not self.unstored:
            words = "the login of `%s` cannot be stored, and lasts only as long as this process: %s"
            _logger.warning(words, self._stored.server, error, extra=fields(server=self._stored.server))
        self.unstored = str(error)

    async def _is_renewed(self, response: httpx2.Response) -> bool:
        """Say whether a response has another token; if it has none, a person is asked, or this raises."""
        content = await response.aread()
        status = response.status_code
        error = _error_in(content) if 400 <= status < 500 else None
        if status == 200:
            try:
                OAuthToken.model_validate_json(content)
            except ValidationError:
                raise NotRenewed("answered without a token") from None
            return True
        if error == "invalid_grant" or (error in _UNKNOWN_CLIENT and not self._stands):
            if self._ask is None:
                raise self._without_person(401)
            if self._stands:
                raise AuthorizationFailed("needs an authorization again")
            if error != "invalid_grant":
                self.context.client_info = self._given
            return False
        kind = LoadFailure.HTTP_STATUS if status >= 500 or status in _DEFERRED else LoadFailure.OTHER
        raise NotRenewed(f"answered with HTTP status {status}", kind, status)

    def _forget_client_of_other_address(self) -> None:
        """Have the client registered again if the provider would send the person back to another address."""
        [address] = map(str, self.context.client_metadata.redirect_uris or ())
        if self._given is None and self._registered_at != address:
            self.context.client_info = None
        self._registered_at = address

    def _without_person(self, status: int) -> AuthorizationFailed:
        return AuthorizationFailed(f"needs the authorization of a person{self._remedy}", status=status)

    def _is_final(self, response: httpx2.Response, sent: OAuthToken | None) -> bool:
        """Say whether no other token can be had for a request that was refused, without a person."""
        is_replaced = self.context.current_tokens is not sent
        return response.status_code == 403 or not (is_replaced or self.context.can_refresh_token())

    async def _sent_to(self, url: str) -> None:
        self._url = url

    async def _called_back(self) -> AuthorizationCodeResult:
        if self._ask is None:
            raise self._without_person(401)
        result = await self._ask(self._url)
        self._is_new = True
        return result


class _Kept:
    """The client and its tokens as the library has them; `changed` is called when it has other tokens."""

    def __init__(self, client: OAuthClientInformationFull | None, changed: Callable[[], Awaitable[None]]) -> None:
        self._client = client
        self._changed = changed
        self._tokens: OAuthToken | None = None
        self._given: deque[str] = deque(maxlen=TOKENS_KEPT)

    @property
    def secrets(self) -> tuple[str, ...]:
        secret = self._client.client_secret if self._client else None
        return (*self._given, *([secret] if secret else ()))

    def mask(self, tokens: OAuthToken | None, client: OAuthClientInformationFull) -> None:
        """Take secrets that another process was given."""
        self._client, self._tokens = client, tokens
        if tokens is not None:
            self._given.extend(token for token in (tokens.access_token, tokens.refresh_token) if token)

    async def get_tokens(self) -> OAuthToken | None:
        return self._tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._tokens = tokens
        self._given.extend(token for token in (tokens.access_token, tokens.refresh_token) if token)
        await self._changed()

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


def _offers_login(response: httpx2.Response) -> bool:
    return extract_field_from_www_auth(response, "resource_metadata") is not None


def revocation_form(login: Login) -> tuple[dict[str, str], dict[str, str]] | None:
    """Return the form and the headers that ask a provider to revoke the token of a login; None if it has no token."""
    tokens = login.tokens
    if tokens is None:
        return None
    is_refresh = tokens.refresh_token is not None
    form = {
        "token": tokens.refresh_token or tokens.access_token,
        "token_type_hint": "refresh_token" if is_refresh else "access_token",
        "client_id": login.client.client_id,
    }
    of_client = Authorization(login.url, login.redirect_uri, None)
    of_client.context.client_info = login.client
    return of_client.context.prepare_token_auth(form, {})


def _words(error: Exception) -> str:
    if isinstance(error, OAuthRegistrationError):
        return "could not be authorized: its provider does not register this gateway"
    if isinstance(error, OAuthTokenError):
        return "could not be authorized: its provider gave no token"
    return "could not be authorized: its provider does not answer as OAuth asks"
