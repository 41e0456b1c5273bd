"""An HTTP client for MCP over streamable HTTP that keeps the facts of a failed exchange and the connection alive."""

from __future__ import annotations

import http
import json
import logging
import math
import os
import ssl
import traceback
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from time import monotonic
from typing import Any

import httpx2
from mcp_types import INTERNAL_ERROR

from callability.contract.vocabulary import LoadPhase
from callability.gateway.upstream import http_response
from callability.gateway.upstream.authorization import OF_PROVIDER, AuthorizationFailed, NotRenewed, revocation_form
from callability.gateway.upstream.failure import TOO_LONG, Failure, transport_failure
from callability.gateway.upstream.login_store import Login
from callability.gateway.upstream.messages import EXCHANGE, PROBE, Exchange
from callability.gateway.upstream.target import HttpTarget
from callability.process.address import is_loopback
from callability.process.logs import fields

FRESH_SECONDS = 5
"""How long certificates are used before they are read again."""


def trusted_authorities() -> ssl.SSLContext:
    """Return what trusts the system's certificates, or those that `SSL_CERT_FILE` and `SSL_CERT_DIR` name.

    Reading them holds up the whole process for 50 ms: connections that are opened at one time share them.
    """
    return _read(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"), int(monotonic() / FRESH_SECONDS))


@lru_cache(maxsize=1)
def _read(file: str | None, directory: str | None, time: int) -> ssl.SSLContext:
    return httpx2.create_ssl_context()


# Until a notification is delivered, the SDK sends nothing else.
NOTIFICATION_SECONDS = 5
TIMEOUT = httpx2.Timeout(connect=5, write=30, pool=10, read=None)
# Shorter than the five seconds of many servers, so that a request does not meet the end of a kept connection.
LIMITS = httpx2.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=3)
REVOCATION_SECONDS = 5.0
"""How long a person who logs out waits for the provider at most, in each phase of the exchange."""
MAX_REDIRECTS = 3
# The client counts the requests of an authorization as redirects of the request that needed it.
AUTHORIZATION_REQUESTS = 12
_HANDSHAKE = (PROBE, "initialize")
_REFUSED_OR_DEFERRED = frozenset({401, 403, 429})
_UNREADABLE = Failure("sent an answer that the gateway could not handle", phase=LoadPhase.RESPONSE)
_logger = logging.getLogger("callability.gateway.upstream")

# These write URLs, session ids, headers, bodies and messages to the log, where no secret may be.
for _name, _level in (
    ("httpx2", logging.WARNING),
    ("httpcore2", logging.WARNING),
    ("mcp.client.streamable_http", logging.CRITICAL),
    # The SDK's client session.
    ("client", logging.CRITICAL),
    ("sse_starlette", logging.INFO),
):
    logging.getLogger(_name).setLevel(_level)


class HttpClient(httpx2.AsyncClient):
    """Answers a failed POST in place of the upstream: an exception would end the connection and all its calls."""

    def __init__(self, name: str, target: HttpTarget) -> None:
        super().__init__(
            verify=trusted_authorities(),
            headers=dict(target.headers),
            cookies=http_response.plain_cookies(),
            auth=target.authorization,
            timeout=TIMEOUT,
            limits=LIMITS,
            max_redirects=MAX_REDIRECTS + (AUTHORIZATION_REQUESTS if target.authorization else 0),
            event_hooks={"response": [http_response.keep_plain_headers]},
            mounts=_direct(target.url),
        )
        self._name = name

    async def send(self, request: httpx2.Request, *args: Any, **options: Any) -> httpx2.Response:
        """Send, and note the outcome in the caller's exchange."""
        request.extensions = {**request.extensions, "trace": http_response.Handshake().note_event}
        if request.method != "POST":
            try:
                response = await super().send(request, *args, **options)
            except (AuthorizationFailed, NotRenewed):
                return httpx2.Response(http.HTTPStatus.UNAUTHORIZED, request=request)
            if request.method != "GET" or not response.is_success:
                # The SDK reads it whole, which it does not do with a stream of events.
                http_response.limit_body(response)
            return response
        # A request that follows a redirect has a stream only.
        await request.aread()
        awaits_answer, method = _awaits_answer(request)
        exchange = EXCHANGE.get()
        if exchange is None or not awaits_answer:
            exchange = Exchange(NOTIFICATION_SECONDS)
        exchange.begin()
        if method in _HANDSHAKE and exchange.refusal is not None:
            exchange.failure, exchange.status = exchange.refusal, exchange.refusal.status
            return _stand_in(request)
        limits = {**request.extensions.get("timeout", {}), "read": exchange.seconds}
        if method == PROBE and exchange.probe_seconds is not None:
            limits["read"] = exchange.probe_seconds
        left = exchange.seconds_left
        if method == "tools/list" and left is not None:
            # It ends before the time of the whole listing, and so says that it was not sent.
            limits["pool"] = min(limits.get("pool") or math.inf, left / 2)
        request.extensions = {**request.extensions, "timeout": limits}
        answer = await self._answer(request, method, exchange, *args, **options)
        if method == PROBE and answer is not None and _is_to_another(answer, request):
            answer, exchange.unanswered = None, True
        elif method == PROBE and answer is not None and _is_unexplained(answer):
            exchange.unanswered, exchange.denial = True, exchange.failure
        elif method in _HANDSHAKE and exchange.status in _REFUSED_OR_DEFERRED:
            exchange.refusal = exchange.failure
        if method == "initialize":
            exchange.denial = None
        return answer or _stand_in(request)

    async def _answer(
        self, request: httpx2.Request, method: str | None, exchange: Exchange, *args: Any, **options: Any
    ) -> httpx2.Response | None:
        """Return the answer; None if there is none, for a reason that the exchange then has."""
        try:
            response = await super().send(request, *args, **options)
            if method == PROBE and exchange.probe_seconds is not None:
                _hurry(response, request, exchange, exchange.probe_seconds)
            try:
                return await http_response.judge_response(response, request, method, exchange)
            except BaseException:
                await response.aclose()
                raise
        except http_response.TooLong:
            # The server and the connection are well: what is left of the body goes with its own socket.
            exchange.failure = TOO_LONG
        except AuthorizationFailed as error:
            exchange.lose(error.failure)
        except NotRenewed as error:
            exchange.failure = error.failure
        except httpx2.RequestError as error:
            if _is_of_provider(error):
                failure = transport_failure(error)
                exchange.failure = NotRenewed(failure.words, failure.kind).failure
            else:
                http_response.note(error, exchange)
        except Exception as error:
            exchange.failure = _UNREADABLE
            about = fields(server=self._name)
            _logger.warning("`%s` %s (%s)", self._name, _UNREADABLE.words, _place(error), extra=about)
        return None


def _hurry(response: httpx2.Response, request: httpx2.Request, exchange: Exchange, seconds: float) -> None:
    """Limit the time for the rest of an answer to `server/discover`."""
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    error = {"code": INTERNAL_ERROR, "message": "no answer in time"}
    refusal = json.dumps({"jsonrpc": "2.0", "id": json.loads(request.content)["id"], "error": error})
    is_stream = response.headers.get("content-type", "").lower().startswith("text/event-stream")
    event = f"\n\nevent: message\ndata: {refusal}\n\n".encode() if is_stream else b""
    response.stream = http_response.HurriedStream(response.stream, exchange, seconds, event)


def _is_to_another(response: httpx2.Response, request: httpx2.Request) -> bool:
    """Say whether an answer in JSON is to no request or another one, so that the SDK would wait on."""
    if not response.is_success or not response.is_stream_consumed:
        return False
    try:
        message = json.loads(response.content)
    except (ValueError, RecursionError):
        return False
    return isinstance(message, dict) and str(message.get("id")) != str(json.loads(request.content)["id"])


def _is_unexplained(response: httpx2.Response) -> bool:
    """Say whether a denial names no way to be admitted: it may be of the request, and not of the caller."""
    return response.status_code == http.HTTPStatus.FORBIDDEN and "www-authenticate" not in response.headers


async def revoke(login: Login) -> str:
    """Have the provider revoke the refresh token of a login, or else its access token; return why it did not, or ""."""
    endpoint = login.metadata and login.metadata.revocation_endpoint
    form = revocation_form(login)
    if endpoint is None or form is None:
        return "it has no address for that" if form is not None else "there is none"
    url = httpx2.URL(str(endpoint))
    if url.scheme != "https" and not is_loopback(url.host):
        return "its address for that is not encrypted"
    data, headers = form
    try:
        async with (
            httpx2.AsyncClient(
                verify=trusted_authorities(), timeout=REVOCATION_SECONDS, mounts=_direct(str(url))
            ) as client,
            client.stream("POST", url, data=data, headers=headers) as response,
        ):
            status = response.status_code
    except httpx2.HTTPError as error:
        return f"it cannot be reached ({type(error).__name__})"
    return "" if status == http.HTTPStatus.OK else f"it answered with HTTP status {status}"


def _direct(url: str) -> dict[str, None]:
    """Return the hosts on loopback, which are reached without the proxy that the environment may name."""
    hosts = {"localhost", "127.0.0.1", "[::1]"}
    with suppress(httpx2.InvalidURL):
        host = httpx2.URL(url).host
        if is_loopback(host):
            hosts.add(f"[{host}]" if ":" in host else host)
    return {f"all://{host}": None for host in sorted(hosts)}


def _awaits_answer(request: httpx2.Request) -> tuple[bool, str | None]:
    """Say whether a message awaits an answer, and return its method."""
    try:
        message = json.loads(request.content)
    except RecursionError:
        # Only the arguments of a call are ever that deep.
        return True, "tools/call"
    return "method" in message and "id" in message, message.get("method")


def _stand_in(request: httpx2.Request) -> httpx2.Response:
    error = {"code": INTERNAL_ERROR, "message": "the exchange failed"}
    return httpx2.Response(503, json={"jsonrpc": "2.0", "id": None, "error": error}, request=request)


def _is_of_provider(error: httpx2.RequestError) -> bool:
    """Say whether an error is of a request to the provider that renews a token, or of a connection that stands."""
    try:
        return bool(error.request.extensions.get(OF_PROVIDER))
    except RuntimeError:
        # It has no request.
        return False


def _place(error: Exception) -> str:
    """Return the type of an error and where it was raised; its text may hold what the server sent."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" in {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{where}"
