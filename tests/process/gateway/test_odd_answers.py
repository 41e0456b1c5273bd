"""Malformed headers and messages: they fail one request at most, and never a connection."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.auth import AuthorizationCodeResult

from callability.gateway.upstream.authorization import Authorization
from callability.gateway.upstream.failure import UpstreamError
from callability.gateway.upstream.target import HttpTarget
from callability.gateway.upstream.upstream import Upstream
from support.drawing import drawing
from support.upstreams.bad_http import Answer, BadHttp, content, reply, result

pytestmark = pytest.mark.anyio

PATIENT = 120
HELD = 3
EVENTS = "text/event-stream"
ERAS: dict[str, dict[str, Any]] = {"session": {"session": "one"}, "stateless": {"modern": True}}
HEADERS = {
    "UTF-8": "X-Note: café".encode(),
    "Latin-1": b"X-Note: caf\xe9",
    "bytes of no encoding": b"X-Note: \xff\xfe\x80",
    "a cookie": "Set-Cookie: taste=café; Path=/".encode(),
    "a cookie's path": "Set-Cookie: taste=sweet; Path=/café".encode(),
    "a cookie with a control character": b"Set-Cookie: taste=\x01\x7f; Path=/",
    "a cookie's date": b"Set-Cookie: a=b; expires=Mon, 99 Foo 99999999999999999999",
    "a pause": "Retry-After: ٣".encode(),
    "a pause for ever": b"Retry-After: " + b"9" * 400,
    "a demand for a token": "WWW-Authenticate: Bearer é=".encode(),
    "a place": "Location: http://café:99999/".encode(),
    "a content encoding": "Content-Encoding: gzíp".encode(),
    "control characters": b"X-Note: \x01\x02\x7f",
    "a folded line": b"X-Note: a\r\n b",
}
CHARSETS = (
    *(b"undefined", b"idna", b"hex", b"rot13", b"punycode", b"base64", b"zlib", b"utf-16", b"utf-7"),
    *(b"no-such-charset", "é".encode(), b"\x01", b"'"),
)


@pytest.fixture
def anyio_backend() -> str:
    """The gateway runs on asyncio."""
    return "asyncio"


def good(request: dict[str, Any]) -> bytes:
    """Return an answer to a call as JSON."""
    return content(request)


def good_events(request: dict[str, Any]) -> bytes:
    """Return the same answer in an event stream."""
    body = result(request, {"content": [], "resultType": "complete"})
    return reply(b"data: " + body + b"\n\n", kind=EVENTS)


def failing(status: str) -> bytes:
    """Return an error with a body that is not ASCII."""
    return reply("nö".encode() + b"\xff", status=status)


ANSWERS: dict[str, Answer] = {
    "json": good,
    "events": good_events,
    "403": failing("403 Forbidden"),
    "503": failing("503 Unavailable"),
}
REDIRECT = reply(b"", status="307 Temporary Redirect", extra="Location: http://[::1]:1/\r\n")


@asynccontextmanager
async def connected(server: BadHttp, target: HttpTarget | None = None) -> AsyncGenerator[Upstream]:
    """Give an upstream that is connected to a server."""
    async with server.listening(), asyncio.timeout(PATIENT):
        it = Upstream("x", target or HttpTarget(server.url), open_seconds=PATIENT, call_seconds=PATIENT)
        await it.connect()
        try:
            yield it
        finally:
            await it.close()


@pytest.fixture(params=ERAS)
async def era(request: pytest.FixtureRequest) -> AsyncIterator[tuple[BadHttp, Upstream]]:
    """Give a server of each era of MCP, and an upstream that is connected to it."""
    server = BadHttp(**ERAS[request.param], answers={**ANSWERS, "redirect": REDIRECT})
    async with connected(server) as it:
        yield server, it


async def said(it: Upstream, tool: str) -> str:
    """Return the outcome of a call."""
    try:
        return "an error result" if (await it.call(tool, {})).is_error else "an answer"
    except UpstreamError as error:
        return str(error).partition(";")[0].removeprefix("`x` ")


async def alone(server: BadHttp, it: Upstream, story: Callable[[], Any]) -> None:
    """Run a story while other calls are in progress on the same connection, and check that they are answered on it."""
    connection = await it.connect()
    held = [asyncio.create_task(it.call("hold", {})) for _ in range(HELD)]
    await server.hold(HELD)
    await story()
    server.release()
    assert [(await each).is_error for each in held] == [False] * HELD
    assert await said(it, "pid") == "an answer"
    assert await it.connect() is connection
    assert it.state == "connected"


async def seen_as_it_is(it: Upstream) -> None:
    """Check that answers are answers, and that errors are reported by their status."""
    assert await said(it, "json") == "an answer"
    assert await said(it, "events") == "an answer"
    assert await said(it, "403") == "answered with HTTP status 403"
    assert await said(it, "503") == "answered with HTTP status 503"
    assert await said(it, "redirect") == "answered with a redirect that is not followed"


@pytest.mark.parametrize("name", HEADERS)
async def test_an_odd_header_of_any_response_changes_nothing(name: str, era: tuple[BadHttp, Upstream]) -> None:
    """Of JSON, of events and of errors: calls are answered, errors are reported by status, and nothing else ends."""
    server, it = era
    server.head_lines = HEADERS[name] + b"\r\n"
    await alone(server, it, lambda: seen_as_it_is(it))


@pytest.mark.parametrize("charset", CHARSETS)
async def test_an_odd_charset_changes_nothing(charset: bytes, era: tuple[BadHttp, Upstream]) -> None:
    """MCP is UTF-8, whatever a content type says, even if it names a codec that is not for text or does not exist."""
    server, it = era
    server.charset = charset
    await alone(server, it, lambda: seen_as_it_is(it))


@pytest.mark.parametrize("era_name", ERAS)
@pytest.mark.parametrize("name", HEADERS)
async def test_a_server_with_an_odd_header_connects(name: str, era_name: str) -> None:
    """Each response has it, from the first on; later requests have no cookie that cannot be sent."""
    server = BadHttp(**ERAS[era_name], answers=ANSWERS)
    server.head_lines, server.charset = HEADERS[name] + b"\r\n", b"rot13"
    async with connected(server) as it:
        assert await said(it, "events") == "an answer"


async def test_plain_cookies_are_sent_back_and_others_are_not() -> None:
    """A server may need its cookie; one that is not ASCII would fail every later request."""
    server = BadHttp(session="one")
    server.head_lines = "Set-Cookie: route=a1\r\nSet-Cookie: taste=café\r\n".encode()
    async with connected(server) as it:
        await it.call("pid", {})
        assert "cookie: route=a1\r\n" in server.head.lower()


@pytest.mark.parametrize("line", [b"X-Note: a\x00b", b"X-Note: a\rb", b"X Note: a", b"caf\xe9: a", b": a"])
async def test_a_response_that_is_not_http_fails_one_call(line: bytes, era: tuple[BadHttp, Upstream]) -> None:
    """HTTP allows no NUL and no bare line break in a header, and no malformed name."""
    server, it = era

    async def story() -> None:
        server.head_lines = line + b"\r\n"
        assert await said(it, "json") == "answered with something that is not HTTP"
        server.head_lines = b""

    await alone(server, it, story)


async def test_a_session_that_no_header_can_name_is_not_mcp() -> None:
    """It could not be sent back."""
    server = BadHttp()
    server.head_lines = "Mcp-Session-Id: café\r\n".encode()
    async with server.listening():
        it = Upstream("x", HttpTarget(server.url), open_seconds=PATIENT)
        with pytest.raises(UpstreamError, match="named a session with characters that MCP does not allow"):
            await it.connect()
        await it.close()


NAMES = ["X-Note", "Set-Cookie", "Retry-After", "WWW-Authenticate", "Mcp-Session-Id", "Location", "Date", "Vary"]
LINES = st.lists(st.tuples(st.sampled_from(NAMES), st.binary(max_size=40)), min_size=1, max_size=4)


@drawing(20)
@given(st.lists(LINES, min_size=5, max_size=10), st.sampled_from(list(ERAS)))
def test_no_bytes_in_a_header_end_a_connection(drawn: list[list[tuple[str, bytes]]], era_name: str) -> None:
    """Whatever they contain: the answer is the same with them, or the response is not HTTP."""

    async def story() -> None:
        server = BadHttp(**ERAS[era_name], answers=ANSWERS)
        async with connected(server) as it:
            await alone(server, it, lambda: each_line(server, it))

    async def each_line(server: BadHttp, it: Upstream) -> None:
        for lines in drawn:
            for tool in ANSWERS:
                head = b"".join(name.encode() + b": " + value + b"\r\n" for name, value in lines)
                server.head_lines = b"" if b"\n\r" in head or b"\r\n\r\n" in head else head
                wanted = f"answered with HTTP status {tool}" if tool.isdecimal() else "an answer"
                assert await said(it, tool) in (wanted, "answered with something that is not HTTP")
                # Three failures without a success between them would open the connection again.
                server.head_lines = b""
                assert await said(it, "json") == "an answer"

    asyncio.run(story())


class Broken(Authorization):
    """An unexpected error occurs in a call of one tool."""

    async def _auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        if b'"json"' in request.content:
            raise KeyError("a secret")
        yield request


async def test_an_unforeseen_error_fails_one_call_with_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """The line has the kind of the error and its place, but not its text."""

    async def ask(_: str) -> AuthorizationCodeResult:
        raise NotImplementedError

    server = BadHttp(session="one", answers=ANSWERS)
    async with server.listening():
        target = HttpTarget(server.url, authorization=Broken(server.url, "http://127.0.0.1:1/", ask))
    async with connected(server, target) as it:

        async def story() -> None:
            assert await said(it, "json") == "sent an answer that the gateway could not handle"

        await alone(server, it, story)
    (line,) = [record.getMessage() for record in caplog.records if "could not handle" in record.getMessage()]
    assert "(KeyError in test_odd_answers.py:" in line
    assert "a secret" not in line


@pytest.mark.parametrize("field", ["progress", "total"])
async def test_a_progress_beyond_all_numbers_is_left_out(field: str, era: tuple[BadHttp, Upstream]) -> None:
    """No floating-point number can hold it; the call is answered, and earlier reports are passed on."""
    server, it = era

    def noted(request: dict[str, Any], values: str) -> bytes:
        token = json.dumps(request["params"]["_meta"]["progressToken"])
        params = f'{{"progressToken":{token},"progress":1,{values}}}'
        return f'data: {{"jsonrpc":"2.0","method":"notifications/progress","params":{params}}}\n\n'.encode()

    def answer(request: dict[str, Any]) -> bytes:
        _, _, events = good_events(request).partition(b"\r\n\r\n")
        return reply(noted(request, '"total":2') + noted(request, f'"{field}":{"9" * 400}') + events, kind=EVENTS)

    heard: list[float | None] = []

    async def noted_progress(progress: float, total: float | None, message: str | None) -> None:
        heard.append(total)

    server.answers["json"] = answer
    await alone(server, it, lambda: it.call("json", {}, progress=noted_progress))
    assert heard == [2.0]


async def test_arguments_that_are_nested_too_deeply_fail_one_call(era: tuple[BadHttp, Upstream]) -> None:
    """The SDK writes at most 255 levels."""
    server, it = era
    deep: list[Any] = []
    for _ in range(300):
        deep = [deep]

    async def story() -> None:
        with pytest.raises(UpstreamError, match="cannot be given these arguments"):
            await it.call("json", {"deep": deep})

    await alone(server, it, story)
