"""The gateway over HTTP: every request needs a token as soon as an agent has one; calls in flight are finished.

The body of a request is read whole, it and its session are counted, and its answer always ends.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from http import HTTPStatus
from typing import Any

from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import BearerAuthBackend, RequireAuthMiddleware
from mcp.server.streamable_http import GET_STREAM_KEY
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.applications import Starlette
from starlette.authentication import BaseUser
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from callability.files.certificates import CurrentContext
from callability.gateway.agents import AgentRouter
from callability.gateway.config.model import MAX_REQUEST_BYTES, HttpConfig
from callability.gateway.observability import Metrics
from callability.gateway.serving import http_connections
from callability.gateway.serving.http_sessions import HttpAgents, HttpSessions, TooManyRequests, TooManySessions
from callability.gateway.serving.listening import HttpPort
from callability.gateway.serving.mcp_server import SESSION, mcp_server
from callability.gateway.serving.streams import unreadable
from callability.process.web_server import StopSignals, UvicornServer

PIECE_BYTES = 65_536
"""Bytes of an answer that are given to a connection at once."""
_STOPPED = "The gateway is shutting down; the call may have been carried out."
_NOT_TAKEN = "The gateway is shutting down and takes no more requests."
_logger = logging.getLogger(__name__)


class HttpRequests:
    """An ASGI application in front of the library's."""

    def __init__(self, application: ASGIApp, limits: Callable[[], HttpConfig], on_end: Callable[[str], object]) -> None:
        def forget(session: str) -> None:
            for each in [each for each in self._ids if each[0] == session]:
                del self._ids[each]
            on_end(session)

        self.sessions = HttpSessions(application, limits, forget)
        self._agents = HttpAgents(limits)
        self._application = application
        self._limits = limits
        self._stopping = asyncio.Event()
        self._ids: dict[tuple[str, str], set[str]] = {}
        """The ids of requests that are in progress, by session and agent."""

    def stop(self) -> None:
        """Accept no more requests, and end the streams that last for as long as their client wants."""
        self._stopping.set()
        self.sessions.stop()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        answer = _Answer(send, scope, self._agents)
        if self._stopping.is_set():
            await answer.refuse(HTTPStatus.SERVICE_UNAVAILABLE, _NOT_TAKEN, scope, receive)
            return
        if scope["method"] == "DELETE":
            # It is never refused, because it ends requests.
            await self._in_session(scope, receive, answer)
            return
        is_post = scope["method"] == "POST"
        try:
            with self._agents.count(_agent(scope), may_be_message=is_post) as has_place:
                await self._count(scope, receive, answer, has_place=has_place)
        except TooManyRequests as error:
            await answer.refuse(error.status, str(error), scope, receive)

    async def _count(self, scope: Scope, receive: Receive, answer: _Answer, *, has_place: bool) -> None:
        if scope["method"] == "POST":
            await self._post(scope, receive, answer, has_place=has_place)
        elif scope["method"] == "GET":
            await self._in_session(_without_replay(scope), self._until_stopping(receive), answer)
            await answer.complete()
        else:
            await self._in_session(scope, receive, answer)

    async def _post(self, scope: Scope, receive: Receive, answer: _Answer, *, has_place: bool) -> None:
        most = self._limits().request_bytes
        try:
            body = await _body(scope, receive, most)
        except _TooLarge:
            text = f"The body of the request has more than {most:,} bytes, which is the limit (`http.request_bytes`)."
            await answer.refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text, scope, receive, code=INVALID_REQUEST)
            return
        except _Gone:
            return
        # What is read of a body takes far more memory than its bytes, so it waits for its turn first.
        message: dict[str, Any] = {}
        try:
            async with self._agents.turn(_agent(scope), len(body)):
                message = _message(body)
                if not has_place and _is_request(message):
                    raise self._agents.refusal(_agent(scope))
                if (fault := unreadable(body, message)) is not None:
                    code, text = fault
                    found = None if code == PARSE_ERROR else _id_of(message)
                    await answer.refuse(HTTPStatus.BAD_REQUEST, text, scope, receive, request=found, code=code)
                    return
                with self._hold_id(scope, message, answer):
                    if _opens_session(scope, message):
                        await self._opening(scope, _replay(body, receive), answer)
                    else:
                        await self._in_session(scope, _replay(body, receive), answer)
        except _UnusableId as error:
            status, found = HTTPStatus.BAD_REQUEST, error.request
            await answer.refuse(status, str(error), scope, receive, request=found, code=INVALID_REQUEST)
        except (TooManyRequests, TooManySessions) as error:
            await answer.refuse(error.status, str(error), scope, receive, request=_id_of(message))
        except asyncio.CancelledError:
            if not self._stopping.is_set():
                raise
            await answer.cut(_id_of(message), scope, receive)

    @contextmanager
    def _hold_id(self, scope: Scope, message: dict[str, Any], answer: _Answer) -> Iterator[None]:
        """Keep the id of a request in use while it is answered: the library finds the answer of a session by it.

        If the client has gone before the answer was whole, the library may still carry the request out, and would send
        its answer to the next request with the id: it is in use until the session ends.

        Raises:
            _UnusableId: it is no id, or another request of the session has it.
        """
        if not message.keys() >= {"id", "method"}:
            yield
            return
        found = message["id"]
        if isinstance(found, bool) or not isinstance(found, str | int):
            raise _UnusableId(f"The id of a request must be a text or a whole number, and is {_kind(found)}.")
        headers = Headers(scope=scope)
        session = headers.get(SESSION, "") if _has_sessions(headers) else ""
        if not session:
            yield
            return
        # The library compares ids as text, and has one of its own.
        used, key = self._ids.setdefault((session, _agent(scope)), {GET_STREAM_KEY}), str(found)
        if key in used:
            text = f"A request with the id {json.dumps(found)} is in progress in this session: use each id once."
            raise _UnusableId(text, found)
        used.add(key)
        # Once a client has the whole answer, it may use the id again, before its request has ended here.
        answer.on_whole = lambda: used.discard(key)
        try:
            yield
        finally:
            if used == {GET_STREAM_KEY}:
                self._ids.pop((session, _agent(scope)), None)

    async def _opening(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        async with self.sessions.opening(_agent(scope), _address(scope)) as opened:
            answer.on_start = lambda status, headers: (
                opened(headers[SESSION], scope) if status < 400 and SESSION in headers else None
            )
            await self._application(scope, receive, answer.send)

    async def _in_session(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        headers, agent = Headers(scope=scope), _agent(scope)
        # The library ignores the id of a request without a session, and its answer says nothing about the session.
        session = headers.get(SESSION, "") if _has_sessions(headers) else ""
        async with self.sessions.using(session, agent, is_stream=scope["method"] == "GET"):
            await self._application(scope, receive, answer.send)
        if answer.status == HTTPStatus.NOT_FOUND or (scope["method"] == "DELETE" and answer.status == HTTPStatus.OK):
            self.sessions.forget(session, agent)

    def _until_stopping(self, receive: Receive) -> Receive:
        async def next_message() -> Message:
            """Return what the client sends, or once the gateway ends, that it has disconnected."""
            received, stopped = asyncio.ensure_future(receive()), asyncio.ensure_future(self._stopping.wait())
            try:
                await asyncio.wait({received, stopped}, return_when=asyncio.FIRST_COMPLETED)
                return received.result() if received.done() else {"type": "http.disconnect"}
            finally:
                for each in (received, stopped):
                    each.cancel()

        return next_message


class _Answer:
    """An answer, and how much of it has been sent."""

    def __init__(self, send: Send, scope: Scope, agents: HttpAgents) -> None:
        self._send = send
        self._abort: Callable[[], object] = scope.get(http_connections.ABORT, lambda: None)
        self._agent = _agent(scope)
        self._address = _address(scope)
        self._agents = agents
        self._whole = False
        self._is_stream = False
        self.status: int | None = None
        self.on_whole: Callable[[], object] = lambda: None
        self.on_start: Callable[[int, Headers], object] = lambda *_: None

    async def send(self, message: Message) -> None:
        """Send a part."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = Headers(raw=list(message.get("headers", ())))
            self._is_stream = headers.get("content-type", "").startswith("text/event-stream")
            self.on_start(message["status"], headers)
        else:
            self._whole = not message.get("more_body", False)
            if self._whole:
                self.on_whole()
        if len(message.get("body", b"")) > PIECE_BYTES:
            await self._send_in_pieces(message)
        else:
            await self._send(message)

    async def _send_in_pieces(self, message: Message) -> None:
        """Send a large part piece by piece, so that no more of it waits in the connection than the client reads."""
        body = memoryview(message["body"])
        with self._agents.waiting(self._agent, self._address, len(body), self._abort) as read:
            for start in range(0, len(body), PIECE_BYTES):
                piece = bytes(body[start : start + PIECE_BYTES])
                more = start + PIECE_BYTES < len(body) or message.get("more_body", False)
                await self._send({**message, "body": piece, "more_body": more})
                read(len(piece))

    async def complete(self) -> None:
        """End an answer that was started, so that the client sees an end and not a loss."""
        if self.status is not None and not self._whole:
            await self.send({"type": "http.response.body", "body": b"", "more_body": False})

    async def refuse(
        self,
        status: HTTPStatus,
        text: str,
        scope: Scope,
        receive: Receive,
        *,
        request: Any = None,
        code: int = INTERNAL_ERROR,
    ) -> None:
        """Answer with a JSON-RPC error."""
        await JSONResponse(_error(request, text, code), status)(scope, receive, self.send)

    async def cut(self, request: Any, scope: Scope, receive: Receive) -> None:
        """End an answer that is out of time with an error."""
        if self.status is None:
            await self.refuse(HTTPStatus.SERVICE_UNAVAILABLE, _STOPPED, scope, receive, request=request)
        elif self._is_stream and not self._whole:
            event = f"event: message\r\ndata: {json.dumps(_error(request, _STOPPED, INTERNAL_ERROR))}\r\n\r\n"
            await self.send({"type": "http.response.body", "body": event.encode(), "more_body": False})


class _TooLarge(Exception):
    """A body has more bytes than allowed."""


class _UnusableId(Exception):
    """The id of a request cannot be used; `request` is what the refusal has as its id."""

    def __init__(self, text: str, request: str | int | None = None) -> None:
        super().__init__(text)
        self.request = request


class _Gone(Exception):
    """The client disconnected before its request was whole."""


async def _body(scope: Scope, receive: Receive, most: int) -> bytes:
    declared = Headers(scope=scope).get("content-length", "")
    if declared.isdecimal() and int(declared) > most:
        raise _TooLarge
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Gone
        body += message.get("body", b"")
        if len(body) > most:
            raise _TooLarge
        if not message.get("more_body", False):
            return bytes(body)


def _replay(body: bytes, receive: Receive) -> Receive:
    parts: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return parts.pop() if parts else await receive()

    return again


def _without_replay(scope: Scope) -> Scope:
    """Return a request for a stream as one for a new stream: no event is kept to be sent again."""
    headers = [(name, value) for name, value in scope["headers"] if name != b"last-event-id"]
    return {**scope, "headers": headers}


def _agent(scope: Scope) -> str:
    user = scope.get("user")
    return user.display_name if isinstance(user, BaseUser) else ""


def _address(scope: Scope) -> str:
    """Return the address of the client of a request."""
    return str((scope.get("client") or ("",))[0])


def _opens_session(scope: Scope, message: dict[str, Any]) -> bool:
    """Say whether the library opens a session for a request."""
    headers = Headers(scope=scope)
    if SESSION in headers or not _has_sessions(headers):
        return False
    return bool(message.get("method") == "initialize")


def _has_sessions(headers: Headers) -> bool:
    """Say whether the revision of a request has sessions: MCP 2026-07-28 has none."""
    version = headers.get("mcp-protocol-version")
    return version is None or version in HANDSHAKE_PROTOCOL_VERSIONS


def _is_request(message: dict[str, Any]) -> bool:
    """Say whether a message may be a request, and is not known to be a notification or a response."""
    return not message or message.keys() >= {"id", "method"}


def _id_of(message: dict[str, Any]) -> Any:
    request = message.get("id")
    return request if isinstance(request, str | int) and not isinstance(request, bool) else None


def _kind(value: Any) -> str:
    """Return what a JSON value is, in a sentence."""
    return {type(None): "null", bool: "a boolean", float: "a fraction", dict: "an object"}.get(type(value), "a list")


def _message(body: bytes) -> dict[str, Any]:
    with suppress(ValueError, RecursionError):
        message = json.loads(body)
        if isinstance(message, dict):
            return message
    return {}


def _error(request: Any, text: str, code: int) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request, "error": {"code": code, "message": text}}


PATH = "/mcp"
APPLICATION_END_SECONDS = 2
"""Seconds for ending sessions one by one at shutdown."""
# These log a line or more for each session, with its id.
for _name in ("mcp.server.streamable_http", "mcp.server.streamable_http_manager"):
    logging.getLogger(_name).setLevel(logging.WARNING)


class HttpApplication:
    """An ASGI application that checks for each request whether it needs a token, because an edit may change that.

    A session that was opened without a token does not exist for requests that need one.
    """

    def __init__(self, router: AgentRouter, hosts: Sequence[str], scheme: str) -> None:
        self._router = router
        # `HttpRequests` limits the number of sessions and how long they last: the library does not report that a
        # session has ended, by which those of an agent are counted, and an edit reaches no session that is open.
        self._library = StreamableHTTPSessionManager(
            mcp_server(router),
            security_settings=_known_hosts(hosts, scheme),
            session_idle_timeout=None,
            max_sessions=None,
            max_request_body_size=MAX_REQUEST_BYTES,
        )
        self._requests = HttpRequests(
            self._library.handle_request, lambda: router.http, router.list_changed.remove_session
        )
        router.http_changed = self._requests.sessions.apply_limits
        router.is_over_http = True
        self._open = Starlette(routes=[Route(PATH, self._requests)])
        self._guarded = Starlette(
            routes=[Route(PATH, RequireAuthMiddleware(self._requests, []))],
            middleware=[
                Middleware(AuthenticationMiddleware, backend=BearerAuthBackend(router)),
                Middleware(AuthContextMiddleware),
            ],
        )
        self._life = Starlette(lifespan=self._lifespan)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to the application that it is for."""
        if scope["type"] == "lifespan":
            application = self._life
        else:
            application = self._guarded if self._router.guarded else self._open
        await application(scope, receive, send)

    @property
    def sessions_by_agent(self) -> Mapping[str, int]:
        """How many sessions each agent has open."""
        return self._requests.sessions.by_agent

    def stop(self) -> None:
        """Accept no more requests and end the streams of notifications; calls in flight go on."""
        self._requests.stop()
        self._router.list_changed.close()

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        ready = asyncio.Event()
        holding = asyncio.create_task(self._hold(ready))
        await ready.wait()
        try:
            yield
        finally:
            try:
                async with asyncio.timeout(APPLICATION_END_SECONDS):
                    await self._requests.sessions.close()
            except TimeoutError:
                # Cancelling them all together would take far longer.
                _logger.info("the remaining sessions end with the process")
            else:
                holding.cancel()
                await asyncio.wait({holding})

    async def _hold(self, ready: asyncio.Event) -> None:
        async with self._library.run():
            ready.set()
            await asyncio.Event().wait()


def _known_hosts(hosts: Sequence[str], scheme: str) -> TransportSecuritySettings:
    """Refuse requests of a web page elsewhere that uses a name of its own for this address (DNS rebinding)."""
    named = (f"[{host}]" if ":" in host and not host.startswith("[") else host for host in hosts)
    names = dict.fromkeys(("127.0.0.1", "localhost", "[::1]", *named))
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=[form for name in names for form in (name, f"{name}:*")],
        allowed_origins=[form for name in names for form in (f"{scheme}://{name}", f"{scheme}://{name}:*")],
    )


GRACE_SECONDS = 5
"""Seconds that HTTP requests in flight have to finish when the gateway ends."""


async def serve_http(
    router: AgentRouter,
    at: HttpPort,
    listener: socket.socket,
    started: Callable[[str], None],
    signals: StopSignals,
    metrics: Metrics,
) -> None:
    """Serve on a listening socket until a signal comes; `started` is called with the URL.

    Calls in flight have `GRACE_SECONDS` to finish, unless another signal comes.
    """
    host, port = listener.getsockname()[:2]
    reached = f"{at.address.rpartition(':')[0]}:{port}"
    if not router.tokens:
        _logger.warning("no agent has a token: every client that reaches %s can call every callable tool", reached)
    if not at.is_local and not at.hosts:
        _logger.warning("requests whose `Host` is not this machine or %s are refused: give `--allowed-host`", host)
    application = HttpApplication(router, (host, *at.hosts), at.scheme)
    certificates = at.certificates
    metrics.sessions = lambda: application.sessions_by_agent
    if certificates is not None:
        metrics.watch_certificates(certificates)
    server = UvicornServer(
        application,
        host=host,
        port=port,
        http=http_connections.HttpConnection,
        ws="none",
        access_log=_logger.isEnabledFor(logging.DEBUG),
        lifespan="on",
        backlog=http_connections.BACKLOG,
        timeout_keep_alive=http_connections.KEEP_ALIVE_SECONDS,
        ssl_context_factory=(lambda *_: CurrentContext.of(certificates)) if certificates else None,
    )
    asyncio.get_running_loop().set_exception_handler(http_connections.AcceptFailures())
    started(f"{at.scheme}://{reached}/mcp")
    following = asyncio.create_task(certificates.follow()) if certificates else None
    try:
        await server.serve_until(listener, signals, GRACE_SECONDS, application.stop)
    finally:
        if following is not None:
            following.cancel()
