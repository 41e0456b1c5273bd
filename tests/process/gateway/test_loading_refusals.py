"""Loads that end early: refusals, silences, closed sockets, and lists that are not lists (spec B)."""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from callability.client import Client
from callability.contract.vocabulary import LoadStatus
from callability.gateway.loading import Loader, LoadOutcome
from callability.gateway.upstream import http_response
from callability.gateway.upstream.failure import UpstreamError, fault_of_text
from callability.gateway.upstream.target import HttpTarget, StdioTarget
from callability.gateway.upstream.upstream import Upstream
from support.checkout import UPSTREAMS
from support.local_policy import local_client
from support.responses import COMPACT_BODY, cut_response, response, summary
from support.running import unused_port
from support.upstreams.bad_http import BadHttp, Cut, reply

pytestmark = pytest.mark.anyio

BAD = UPSTREAMS / "bad_stdio.py"
AVAILABLE, TRANSIENT, DENIED, PERMANENT = LoadStatus
PATIENT, SHORT = 120, 1
ERAS: dict[str, dict[str, Any]] = {"session": {"session": "one"}, "stateless": {"modern": True}}


@pytest.fixture
def anyio_backend() -> str:
    """The gateway runs on asyncio."""
    return "asyncio"


@pytest.fixture(scope="module")
def policy() -> Client:
    """The shipped policy."""
    return local_client()


async def no_pause(_: float) -> None:
    """Take no time."""


async def loaded(
    target: HttpTarget | StdioTarget, policy: Client, *, tries: int = 2, seconds: float = 600, open_seconds: float
) -> LoadOutcome:
    """Load one server, without pauses, and close it."""
    upstream = Upstream("x", target, open_seconds=open_seconds)
    async with asyncio.timeout(PATIENT):
        outcome = await Loader(policy, tries=tries, seconds=seconds, sleep=no_pause).load(upstream)
        await upstream.close()
    return outcome


STALLED = {
    "401": (cut_response(401, b"no"), DENIED),
    "403 without a byte of its body": (cut_response(403, b""), DENIED),
    "403 of a proxy that timed out": (cut_response(403, COMPACT_BODY[:-1]), TRANSIENT),
    "404": (cut_response(404, b"no"), PERMANENT),
    "503": (cut_response(503, b"no"), TRANSIENT),
    "302": (cut_response(302, b"no"), PERMANENT),
    "200": (cut_response(200, b"{"), TRANSIENT),
}


@pytest.mark.parametrize("where", ["opening", "listing"])
@pytest.mark.parametrize("case", STALLED)
async def test_a_body_that_stalls_until_the_deadline_leaves_the_status(case: str, where: str, policy: Client) -> None:
    """The try ends at its own deadline; the status line is known by then (L-1)."""
    answer, expected = STALLED[case]
    async with BadHttp(modern=where == "listing").listening() as server:
        setattr(server, where, Cut(answer, "hang"))
        outcome = await loaded(HttpTarget(server.url), policy, open_seconds=SHORT)
    assert summary(outcome) == (expected, 2 if expected is TRANSIENT else 1)


async def test_a_body_that_stalls_until_the_deadline_of_the_load_leaves_the_status(policy: Client) -> None:
    """The same before any single try has ended."""
    async with BadHttp().listening() as server:
        server.opening = Cut(cut_response(403, b"no"), "hang")
        outcome = await loaded(HttpTarget(server.url), policy, seconds=SHORT, open_seconds=600)
        assert summary(outcome) == (DENIED, 1)
        server.opening = Cut(cut_response(200, b"no"), "hang")
        outcome = await loaded(HttpTarget(server.url), policy, seconds=SHORT, open_seconds=600)
        assert summary(outcome) == (TRANSIENT, 1)


async def test_nobody_waits_long_for_the_body_of_an_error(policy: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither an opening nor a call, with any deadline."""
    monkeypatch.setattr(http_response, "ERROR_BODY_SECONDS", 0.2)
    async with BadHttp(answers={"stalls": Cut(cut_response(403, b"no"), "hang")}).listening() as server:
        upstream = Upstream("x", HttpTarget(server.url), open_seconds=600, call_seconds=600)
        async with asyncio.timeout(PATIENT):
            with pytest.raises(UpstreamError, match="answered with HTTP status 403; the call was not carried out"):
                await upstream.call("stalls", {})
            assert upstream.state == "connected"
            await upstream.close()
            server.opening = Cut(cut_response(403, b"no"), "hang")
            assert summary(await loaded(HttpTarget(server.url), policy, open_seconds=600)) == (DENIED, 1)


@pytest.mark.parametrize(("number", "expected"), [(401, DENIED), (403, DENIED), (429, TRANSIENT)])
async def test_what_was_refused_or_deferred_is_not_requested_again_in_the_same_try(
    number: int, expected: LoadStatus, policy: Client
) -> None:
    """An `initialize` after the `server/discover` would only be refused too (L-1)."""
    async with BadHttp().listening() as server:
        server.opening = response(number, extra="WWW-Authenticate: Bearer\r\n" if number == 403 else "")
        outcome = await loaded(HttpTarget(server.url), policy, open_seconds=PATIENT)
        tries = 2 if expected is TRANSIENT else 1
        assert summary(outcome) == (expected, tries)
        assert server.requested_methods == ["server/discover"] * tries
        assert outcome.error == f"answered with HTTP status {number}"


async def test_a_deferred_try_is_followed_by_a_whole_one(policy: Client) -> None:
    """A request that was not sent in one try is sent in the next."""
    async with BadHttp().listening() as server:
        server.opening = response(429)

        async def recover(_: float) -> None:
            server.opening = None

        upstream = Upstream("x", HttpTarget(server.url), open_seconds=PATIENT)
        assert summary(await Loader(policy, sleep=recover).load(upstream)) == (AVAILABLE, 2)
        assert server.requested_methods[:3] == ["server/discover", "server/discover", "initialize"]
        await upstream.close()


@pytest.mark.parametrize("not_found", [response(404), Cut(cut_response(404, b"no"), "eof")])
async def test_after_a_404_to_the_newer_protocol_the_older_one_decides(not_found: bytes | Cut, policy: Client) -> None:
    """A server of the older protocol does not know the request (L-1)."""
    async with BadHttp(session="one").listening() as server:
        older = response(403)

        def answer(request: dict[str, Any]) -> bytes | Cut:
            return not_found if request["method"] == "server/discover" else older

        server.opening = answer
        assert summary(await loaded(HttpTarget(server.url), policy, open_seconds=PATIENT)) == (DENIED, 1)
        assert server.requested_methods == ["server/discover", "initialize"]
        value = b'{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}'
        older = reply(b'{"jsonrpc":"2.0","id":2,"result":%s}' % value, extra="Mcp-Session-Id: one\r\n")
        assert summary(await loaded(HttpTarget(server.url), policy, open_seconds=PATIENT)) == (AVAILABLE, 1)


@contextmanager
def accepting(then: Callable[[socket.socket], None]) -> Iterator[int]:
    """Accept connections on a port in a thread, and handle them concurrently."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                then(connection)

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def reset(connection: socket.socket) -> None:
    """Reset a connection."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def read_and_reset(connection: socket.socket) -> None:
    """Reset a connection on which data has arrived."""
    connection.recv(1)
    reset(connection)


def read_and_close(connection: socket.socket) -> None:
    """Close a connection when everything that was sent has been read."""
    connection.recv(65536)
    connection.close()


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("then", [reset, socket.socket.close, read_and_reset, read_and_close])
async def test_a_peer_that_accepts_and_goes_away_is_transient(
    then: Callable[[socket.socket], None], scheme: str, policy: Client
) -> None:
    """At once, while the client still connects, or later: the connection had been established (L-1)."""
    with accepting(then) as port:
        for _ in range(20):
            outcome = await loaded(HttpTarget(f"{scheme}://127.0.0.1:{port}/mcp"), policy, open_seconds=PATIENT)
            assert summary(outcome) == (TRANSIENT, 2)
            assert outcome.error == "closed the connection before it answered"


async def test_a_refused_connection_and_a_peer_that_speaks_no_tls_are_still_permanent(policy: Client) -> None:
    """The first was accepted by no process, and the second answered."""

    def answer(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(response(400))
        connection.close()

    refused = await loaded(HttpTarget(f"https://127.0.0.1:{unused_port()}/mcp"), policy, open_seconds=PATIENT)
    assert summary(refused) == (PERMANENT, 1)
    with accepting(answer) as port:
        outcome = await loaded(HttpTarget(f"https://127.0.0.1:{port}/mcp"), policy, open_seconds=PATIENT)
    assert summary(outcome) == (PERMANENT, 1)
    assert outcome.error == "could not be reached: no trusted TLS connection could be made"


NOT_MCP = "answered with something that is not MCP"
DEEP = '{"a":' * 400 + "1" + "}" * 400
FINE = '{"name":"fine","inputSchema":{"type":"object"}}'
LISTS = {
    "[]": NOT_MCP,
    '"tools"': NOT_MCP,
    "null": NOT_MCP,
    "{MODERN}": f"{NOT_MCP}: the result of `tools/list` has no list `tools`",
    '{MODERN"tools":{}}': f"{NOT_MCP}: the result of `tools/list` has no list `tools`",
    '{MODERN"tools":[FINE],"nextCursor":5}': f"{NOT_MCP}: the `nextCursor` of its list of tools is not text",
    '{MODERN"tools":[3]}': f"{NOT_MCP}: tool number 1 is not an object",
    '{MODERN"tools":[{"name":"bare"},3]}': f"{NOT_MCP}: tool `bare` has no `inputSchema`",
    '{MODERN"tools":[{"name":"odd","inputSchema":"x"}]}': f"{NOT_MCP}: tool `odd` has no valid `inputSchema`",
    '{MODERN"tools":[{"inputSchema":{"type":"object"}}]}': f"{NOT_MCP}: tool number 1 has no `name`",
    '{MODERN"tools":[{"name":"a b\\u001b"}]}': f"{NOT_MCP}: tool number 1 has no `inputSchema`",
    '{MODERN"tools":[{"name":"deep","inputSchema":DEEP}]}': (
        f"{NOT_MCP}: tool `deep` is nested more than 200 levels deep"
    ),
    '{MODERN"tools":[{"inputSchema":DEEP,"title":"]","name":"deep"}]}': (
        f"{NOT_MCP}: tool `deep` is nested more than 200 levels deep"
    ),
    '{MODERN"tools":[{"name":"s3cr3t-v4lu3"}]}': f"{NOT_MCP}: tool `***` has no `inputSchema`",
}


def listed(case: str, *, modern: bool) -> str:
    """Return the result of a listing as JSON."""
    more = '"resultType":"complete","ttlMs":0,"cacheScope":"private"' if modern else '"_meta":{"tools":[{}]}'
    filled = case.replace("{MODERN}", f"{{{more}}}").replace("MODERN", f"{more},")
    return filled.replace("FINE", FINE).replace("DEEP", DEEP)


@pytest.mark.parametrize("how", ["session", "stateless", "events", "stdio"])
@pytest.mark.parametrize("case", LISTS)
async def test_a_list_that_is_not_mcp_needs_attention_and_names_the_tool(case: str, how: str, policy: Client) -> None:
    """At once, over each transport: it is not a timeout, and waiting does not help."""
    text = listed(case, modern=how in ("stateless", "events"))
    if how == "stdio":
        target = StdioTarget(sys.executable, (str(BAD), "lists this", text), {"TOKEN": "s3cr3t-v4lu3"})
        outcome = await loaded(target, policy, open_seconds=PATIENT)
    else:
        async with BadHttp(**ERAS["session" if how == "session" else "stateless"]).listening() as server:

            def answer(request: dict[str, Any]) -> bytes:
                body = f'{{"jsonrpc":"2.0","id":{request["id"]},"result":{text}}}'.encode()
                events = b"event: message\ndata: " + body + b"\n\n"
                return reply(events, kind="text/event-stream") if how == "events" else reply(body)

            server.listing = answer
            headers = {"X-Key": "s3cr3t-v4lu3"}
            outcome = await loaded(HttpTarget(server.url, headers), policy, open_seconds=PATIENT)
    assert summary(outcome) == (PERMANENT, 1)
    assert outcome.error == LISTS[case]


@pytest.mark.parametrize("rest", ['\\"' * 4_000_000, "[" * 8_000_000, '"' * 8_000_001])
def test_a_long_list_that_is_not_mcp_is_looked_at_in_no_time(rest: str) -> None:
    """A text that never closes costs time in proportion to its length; if it cost the square, this would take days."""
    fault = fault_of_text(f'{{"jsonrpc": "2.0", "id": 1, "result": "{rest}'.encode())
    assert str(fault).startswith("answered with something that is not MCP")
