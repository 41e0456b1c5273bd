"""An OAuth provider and the MCP server that it protects, in one origin; a test sets what its user does."""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, Self

import httpx2
import uvicorn
from mcp.server.auth.handlers.authorize import AuthorizationHandler
from mcp.server.auth.handlers.metadata import MetadataHandler, ProtectedResourceMetadataHandler
from mcp.server.auth.middleware.bearer_auth import RequireAuthMiddleware
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    AuthorizeError,
    OAuthAuthorizationServerProvider,
    ProviderTokenVerifier,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.routes import build_metadata, build_resource_metadata_url
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.server.lowlevel import Server
from mcp.server.sse import SseServerTransport
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken, ProtectedResourceMetadata
from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams, TextContent, Tool
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

Person = Literal["authorize", "decline", "fail", "nobody"]
CODE_SECONDS = 600
PAGE = "<!doctype html><title>Sign in</title><p>Nobody is here."


async def browse(url: str) -> int:
    """Do what a person's browser does with an authorization URL, and return the HTTP status that it ends at."""
    async with httpx2.AsyncClient(follow_redirects=True, timeout=120) as browser:
        return (await browser.get(url)).status_code


class OAuthProvider(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """Listens on a free port, or on the one of the last time, while it is entered; its settings may change meanwhile.

    It counts what it was asked: `requests` are "METHOD /path" in order, `tokens` the access tokens that it gave, and
    `connections` how often an MCP client with a valid token opened.
    """

    def __init__(self, *, tools: tuple[str, ...] = ("greet", "secret"), token_seconds: int = 3600) -> None:
        self.port = 0
        self.person: Person = "authorize"
        self.token_seconds = token_seconds
        self.leeway_seconds = 60
        """Seconds for which the MCP server accepts an expired token, because clocks differ."""
        self.register_status = 0
        self.token_status = 0
        self.mcp_status = 0
        """What `/mcp` answers to a request with a valid token, as the two above to any; 0 is what is due."""
        self.token_error = "invalid_grant"
        self.out_of_scope: set[str] = set()
        """The tools whose calls are answered with 403 `insufficient_scope`."""
        self.wrong_state = False
        self.rotates_at_once = True
        """Whether a refresh token is used up by its first use; otherwise it works again, as in a grace period."""
        self.advertised = ""
        """The issuer that the MCP server names; empty: this one."""
        self.dropping: set[str] = set()
        """Paths at which a connection ends without an answer."""
        self.echoing: set[str] = set()
        """Paths at which a request is refused with all that it said; `/mcp` does so with a valid token only."""
        self.heard: list[str] = []
        """The queries and forms of all requests."""
        self.requests: list[str] = []
        self.tokens: list[str] = []
        self.given: list[str] = []
        """Every code and token that it gave, of whichever kind."""
        self.connections = 0
        self.calls = 0
        """How many calls of tools there were; they are answered while `released` is set."""
        self.released = asyncio.Event()
        self.released.set()
        self._tools = tools
        self._clients: dict[str, OAuthClientInformationFull] = {}
        self._codes: dict[str, AuthorizationCode] = {}
        self._access: dict[str, AccessToken] = {}
        self._refresh: dict[str, RefreshToken] = {}

    @property
    def issuer(self) -> str:
        """The origin, which names the provider."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """The MCP endpoint."""
        return f"{self.issuer}/mcp"

    @property
    def events_url(self) -> str:
        """The MCP endpoint over HTTP+SSE."""
        return f"{self.url}/sse"

    def expire(self) -> None:
        """Let the time of all access tokens be over; those that refresh stay."""
        self._access.clear()

    def revoke(self) -> None:
        """Take back every token and code; clients stay registered."""
        self._access.clear()
        self._refresh.clear()
        self._codes.clear()

    async def __aenter__(self) -> Self:
        # A socket that does not name its protocol keeps Nagle's algorithm, and every answer waits for 40 ms.
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.port))
        listener.listen()
        self.port = listener.getsockname()[1]
        config = uvicorn.Config(
            self._application(),
            log_config=None,
            loop="asyncio",
            ws="none",
            lifespan="on",
            timeout_graceful_shutdown=1,
        )
        self._server = _Server(config)
        self._serving = asyncio.create_task(self._server.serve(sockets=[listener]))
        while not self._server.started:  # noqa: ASYNC110  # the library reports it to nobody
            await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.should_exit = True
        await self._serving
        await asyncio.gather(*self._server.server_state.tasks, return_exceptions=True)

    def _application(self) -> ASGIApp:
        registration, revocation = ClientRegistrationOptions(enabled=True), RevocationOptions(enabled=True)
        # From strings: a URL that is parsed already has a slash at its end, and issuers are compared as strings.
        settings = AuthSettings.model_validate(
            {
                "issuer_url": self.issuer,
                "resource_server_url": self.url,
                "validate_token_resource": True,
                "client_registration_options": registration,
                "revocation_options": revocation,
            }
        )
        application = _mcp_server(self).streamable_http_app(
            auth=settings, auth_server_provider=self, token_verifier=ProviderTokenVerifier(self)
        )
        about = build_metadata(settings.issuer_url, None, registration, revocation)
        about.authorization_response_iss_parameter_supported = True
        about.token_endpoint_auth_methods_supported = ["none", "client_secret_post", "client_secret_basic"]
        # These come before the library's own of the same paths.
        application.router.routes[:0] = [
            Route("/.well-known/oauth-authorization-server", MetadataHandler(about).handle),
            Route("/.well-known/oauth-protected-resource", self._of_the_server),
            Route("/.well-known/oauth-protected-resource/mcp", self._of_the_server),
            Route("/authorize", self._at_the_person),
            *self._events(settings),
        ]
        return self._counted(application)

    def _events(self, settings: AuthSettings) -> list[Route | Mount]:
        """Return the same server over HTTP+SSE."""
        events = SseServerTransport("/mcp/messages/")
        assert settings.resource_server_url is not None
        about = build_resource_metadata_url(settings.resource_server_url)

        async def stream(scope: Scope, receive: Receive, send: Send) -> None:
            async with events.connect_sse(scope, receive, send) as (incoming, outgoing):
                server = _mcp_server(self)
                await server.run(incoming, outgoing, server.create_initialization_options())

        protected = RequireAuthMiddleware(stream, [], about)
        return [
            Route("/mcp/sse", protected),
            Mount("/mcp/messages/", RequireAuthMiddleware(events.handle_post_message, [], about)),
        ]

    def _counted(self, application: ASGIApp) -> ASGIApp:
        async def counted(scope: Scope, receive: Receive, send: Send) -> None:
            answer = None
            if scope["type"] == "http":
                self.requests.append(f"{scope['method']} {scope['path']}")
                answer = await self._prepared_answer(scope)
                receive = self._hearing(scope, receive)
                if self.out_of_scope and scope["path"] == "/mcp" and answer is None:
                    answer, receive = await self._scoped(receive)
            await (answer or application)(scope, receive, send)

        return counted

    def _hearing(self, scope: Scope, receive: Receive) -> Receive:
        self.heard.append(scope["query_string"].decode())

        async def hearing() -> Message:
            message = await receive()
            self.heard.append(message.get("body", b"").decode())
            return message

        return hearing

    async def _scoped(self, receive: Receive) -> tuple[ASGIApp | None, Receive]:
        """Refuse the call of a tool that is out of scope, and return what reads the request again."""
        messages = [await receive()]
        while messages[-1].get("more_body"):
            messages.append(await receive())
        body = b"".join(message.get("body", b"") for message in messages)
        params = (json.loads(body) if body else {}).get("params", {})

        async def again() -> Message:
            return messages.pop(0) if messages else await receive()

        if params.get("name") not in self.out_of_scope:
            return None, again
        challenge = 'Bearer error="insufficient_scope", scope="more"'
        return JSONResponse({"error": "insufficient_scope"}, 403, {"WWW-Authenticate": challenge}), again

    async def _prepared_answer(self, scope: Scope) -> ASGIApp | None:
        match scope["path"]:
            case "/mcp" if "/mcp" in self.echoing:
                token = Headers(scope=scope).get("authorization", "").removeprefix("Bearer ")
                return _echo if await self.load_access_token(token) is not None else None
            case path if path in self.echoing:
                return _echo
            case path if path in self.dropping:
                return _drop
            case "/register" if self.register_status:
                return JSONResponse({"error": "invalid_client_metadata"}, self.register_status)
            case "/token" if self.token_status:
                return JSONResponse({"error": self.token_error}, self.token_status)
            case "/mcp" if self.mcp_status:
                token = Headers(scope=scope).get("authorization", "").removeprefix("Bearer ")
                if await self.load_access_token(token) is not None:
                    return JSONResponse({"error": "told to"}, self.mcp_status)
        return None

    async def _of_the_server(self, request: Request) -> Response:
        resource = {"resource": self.url, "authorization_servers": [self.advertised or self.issuer]}
        handler = ProtectedResourceMetadataHandler(ProtectedResourceMetadata.model_validate(resource))
        return await handler.handle(request)

    async def _at_the_person(self, request: Request) -> Response:
        answer = await AuthorizationHandler(self).handle(request)
        return HTMLResponse(PAGE) if answer.headers.get("location") == "" else answer

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        """Return a client that registered."""
        return self._clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        """Remember a client."""
        self._clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        """Return where the person's browser is sent to, "" for nowhere.

        Raises:
            AuthorizeError: the client asks for access to another server.
        """
        if params.resource != self.url:
            raise AuthorizeError("invalid_target", f"there is nothing but {self.url}")
        parameters: dict[str, str | None] = {"state": params.state, "iss": self.issuer}
        if self.wrong_state:
            parameters["state"] = secrets.token_urlsafe()
        match self.person:
            case "nobody":
                return ""
            case "decline":
                parameters["error"] = "access_denied"
            case "fail":
                parameters["error"] = "server_error"
            case "authorize":
                parameters["code"] = self._new_code(client, params)
        return construct_redirect_uri(str(params.redirect_uri), **parameters)

    def _new_code(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        code = secrets.token_urlsafe()
        self.given.append(code)
        self._codes[code] = AuthorizationCode(
            code=code,
            client_id=client.client_id,
            scopes=params.scopes or [],
            expires_at=time.time() + CODE_SECONDS,
            **params.model_dump(include={"code_challenge", "redirect_uri", "redirect_uri_provided_explicitly"}),
            resource=params.resource,
        )
        return code

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        """Return a code that was not used yet."""
        return self._codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        """Give tokens for a code, once."""
        del self._codes[authorization_code.code]
        return self._new_tokens(authorization_code, authorization_code.scopes)

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        """Return a refresh token that was not used yet."""
        return self._refresh.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        """Give tokens for a refresh token, once."""
        if self.rotates_at_once:
            del self._refresh[refresh_token.token]
        return self._new_tokens(refresh_token, scopes)

    def _new_tokens(self, grant: AuthorizationCode | RefreshToken, scopes: list[str]) -> OAuthToken:
        access, refresh = secrets.token_urlsafe(), secrets.token_urlsafe()
        granted: dict[str, Any] = {"client_id": grant.client_id, "scopes": scopes, "resource": grant.resource}
        until = int(time.time()) + self.token_seconds + self.leeway_seconds
        self._access[access] = AccessToken(token=access, expires_at=until, **granted)
        self._refresh[refresh] = RefreshToken(token=refresh, **granted)
        self.tokens.append(access)
        self.given += [access, refresh]
        return OAuthToken(access_token=access, expires_in=self.token_seconds, refresh_token=refresh)

    async def load_access_token(self, token: str) -> AccessToken | None:
        """Return an access token that is valid now."""
        found = self._access.get(token)
        return found if found and (found.expires_at or 0) > time.time() else None

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        """Forget a token."""
        self._access.pop(token.token, None)
        self._refresh.pop(token.token, None)


async def _drop(scope: Scope, receive: Receive, send: Send) -> None:
    """Promise more than is sent, so that the server closes the connection."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"9")]})
    await send({"type": "http.response.body", "body": b"{", "more_body": True})
    raise ConnectionAbortedError


async def _echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Refuse a request with all that it said: as OAuth does, and as JSON-RPC does."""
    request = Request(scope, receive)
    said = f"{request.url} {request.headers.items()} {(await request.body()).decode()}"
    error = {"code": -32000, "message": said, "data": said}
    refused = {"error": "invalid_grant", "error_description": said}
    answer = {"jsonrpc": "2.0", "id": None, "error": error} if scope["path"] == "/mcp" else refused
    await JSONResponse(answer, 400)(scope, receive, send)


class _Server(uvicorn.Server):
    """A server that leaves the signals to the tests."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _mcp_server(provider: OAuthProvider) -> Server[Any]:
    async def list_tools(_context: object, _params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[Tool(name=name, input_schema={"type": "object"}) for name in provider._tools])

    async def call_tool(_context: object, params: CallToolRequestParams) -> CallToolResult:
        known = params.name in provider._tools
        provider.calls += 1
        await provider.released.wait()
        return CallToolResult(content=[TextContent(text=f"{params.name} was called")], is_error=not known)

    async def count(ctx: Any, call_next: Any) -> Any:
        provider.connections += ctx.method in ("initialize", "server/discover")
        return await call_next(ctx)

    server: Server[Any] = Server("protected", on_list_tools=list_tools, on_call_tool=call_tool)
    server.middleware.append(count)
    return server
