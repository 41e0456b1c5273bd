"""Loading the tools of real servers: each failure has its row of the table (spec B), and harms no other server."""

from __future__ import annotations

import asyncio
import gzip
import os
import shutil
import sys
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import grpc
import httpx2
import pytest

from callability.client import Client
from callability.contract.vocabulary import LoadFailure, LoadStatus
from callability.gateway.config.model import ServerConfig
from callability.gateway.loading import Loader, LoadOutcome, LoadPolicy, LoadStub, get_tools_with_resilience
from callability.gateway.upstream.connection import opening_failure
from callability.gateway.upstream.failure import Failure, UpstreamError
from callability.gateway.upstream.target import HttpTarget, StdioTarget, Target
from callability.gateway.upstream.upstream import Upstream
from callability.v1.callability_service_pb2_grpc import CallabilityServiceStub
from support.certificates import Authority
from support.checkout import POLICY, UPSTREAMS
from support.local_policy import local_client
from support.responses import COMPACT_BODY, cut_response, response, summary
from support.running import unused_port
from support.upstreams.bad_http import Answer, BadHttp, Cut, Step, refusal, reply

pytestmark = pytest.mark.anyio

BAD = UPSTREAMS / "bad_stdio.py"
TIMEOUT_BODY = b'{"error":"upstream call timeout"}'
RPC_ERROR = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"no"}}'
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
AVAILABLE, TRANSIENT, DENIED, PERMANENT = LoadStatus
PATIENT, SHORT = 120, 1


@pytest.fixture
def anyio_backend() -> str:
    """The gateway runs on asyncio."""
    return "asyncio"


@pytest.fixture(scope="module")
def policy() -> Client:
    """The shipped policy."""
    return local_client()


class Pauses(list[float]):
    """Records the pauses without waiting; after the first one, the servers have recovered."""

    def __init__(self, *servers: BadHttp) -> None:
        super().__init__()
        self._servers = servers

    async def __call__(self, seconds: float) -> None:
        """Take no time."""
        self.append(seconds)
        for server in self._servers:
            server.opening = server.listing = None


class Failing(Upstream):
    """Fails as requested: with failures that no server can cause at a chosen time."""

    def __init__(self, failure: Failure) -> None:
        super().__init__("x", HttpTarget("http://127.0.0.1/mcp"))
        self._failure = failure

    def start(self) -> None:
        """Dial nothing."""

    async def wait_until_open(self) -> None:
        """Fail as an opening does."""
        raise UpstreamError(self.name, self._failure)


def bad(*how: str, **env: str) -> StdioTarget:
    """Return a server that misbehaves at its start, or a good one."""
    return StdioTarget(sys.executable, (str(BAD), *how), env=env)


async def loaded(
    target: Target, policy: LoadPolicy | LoadStub, pauses: Pauses | None = None, **options: Any
) -> LoadOutcome:
    """Load one server, without pauses."""
    result = await get_tools_with_resilience(
        {"x": target}, policy, sleep=Pauses() if pauses is None else pauses, **options
    )
    return result.outcomes["x"]


def children() -> set[str]:
    """Return the child processes of this process that have not been reaped."""
    return {pid for path in Path("/proc/self/task").glob("*/children") for pid in path.read_text().split()}


GZIP = "Content-Encoding: gzip\r\n"


OPENINGS: dict[str, tuple[Answer, LoadStatus]] = {
    "a reset after the request": ("reset", TRANSIENT),
    "an end before the response": ("eof", TRANSIENT),
    "an end in the head": (Cut(HEAD[:30], "eof"), TRANSIENT),
    "an end in the body": (Cut(HEAD, "eof"), TRANSIENT),
    "a reset in the body": (Cut(HEAD, "reset"), TRANSIENT),
    "an end of the events": (reply(b": hm\n\n", kind="text/event-stream"), TRANSIENT),
    "400": (response(400), PERMANENT),
    "401": (response(401), DENIED),
    "401 of a proxy that timed out": (response(401, b"ext_authz: authorization request timed out"), TRANSIENT),
    "403": (response(403), DENIED),
    "403 of a proxy that timed out": (response(403, TIMEOUT_BODY), TRANSIENT),
    "403 with a URL in the body": (response(403, b"no: http://127.0.0.1/upstream/call-timeout"), DENIED),
    "403 with a JSON-RPC error": (response(403, RPC_ERROR), DENIED),
    "404": (response(404), PERMANENT),
    "408": (response(408), TRANSIENT),
    "429": (response(429), TRANSIENT),
    "500": (response(500), TRANSIENT),
    "500 with a JSON-RPC error": (reply(RPC_ERROR, status="500 Oops"), TRANSIENT),
    "502": (response(502), TRANSIENT),
    "503": (response(503), TRANSIENT),
    "a redirect": (reply(b"", status="302 Found", extra="Location: /x\r\n"), PERMANENT),
    "a page": (reply(b"<html>", kind="text/html"), PERMANENT),
    "another kind of JSON": (reply(b"{}"), PERMANENT),
    "no JSON": (reply(b"{"), PERMANENT),
    "a JSON-RPC error": (lambda request: refusal(request, "no"), PERMANENT),
    "no HTTP": (b"what?\r\n\r\n", PERMANENT),
    "200 in an encoding that it has not": (reply(b"{}", extra=GZIP), TRANSIENT),
    "302 with a cut body": (Cut(cut_response(302, b"no"), "eof"), PERMANENT),
    "307 to itself with a cut body": (Cut(cut_response(307, b"no", "Location: /mcp\r\n"), "eof"), PERMANENT),
    "400 with a cut body": (Cut(cut_response(400, b"no"), "eof"), PERMANENT),
    "401 with a cut body": (Cut(cut_response(401, b"no"), "eof"), DENIED),
    "401 with a body that is reset": (Cut(cut_response(401, b"no"), "reset"), DENIED),
    "403 without its body": (Cut(cut_response(403, b""), "eof"), DENIED),
    "403 with a body in no chunks": (response(403, b"no", extra="Transfer-Encoding: chunked\r\n"), DENIED),
    "403 in an encoding that it has not": (response(403, b"no", extra=GZIP), DENIED),
    "403 in half an encoding": (response(403, gzip.compress(b"no " * 1000)[:20], extra=GZIP), DENIED),
    "403 with a cut body of a proxy that timed out": (Cut(cut_response(403, COMPACT_BODY[:-3]), "eof"), TRANSIENT),
    "403 of a proxy that timed out, reset": (Cut(cut_response(403, TIMEOUT_BODY), "reset"), TRANSIENT),
    "403 of a proxy that timed out, in an encoding that it has not": (
        response(403, TIMEOUT_BODY, extra=GZIP),
        TRANSIENT,
    ),
    "403 of a proxy that timed out, encoded": (response(403, gzip.compress(TIMEOUT_BODY), extra=GZIP), TRANSIENT),
    "401 of a proxy that timed out, in half an encoding": (
        response(401, gzip.compress(COMPACT_BODY + os.urandom(3000))[:1500], extra=GZIP),
        TRANSIENT,
    ),
    "403 in compact JSON of a proxy that timed out": (response(403, COMPACT_BODY), TRANSIENT),
    "401 in a page of a proxy that timed out": (response(401, b"<p>upstream request timeout</p>"), TRANSIENT),
    "403 in compact JSON with a URL": (response(403, b'{"url":"http://h/upstream/call-timeout"}'), DENIED),
    "404 with a cut body": (Cut(cut_response(404, b"no"), "eof"), PERMANENT),
    "408 with a cut body": (Cut(cut_response(408, b"no"), "reset"), TRANSIENT),
    "429 in an encoding that it has not": (response(429, extra=GZIP), TRANSIENT),
    "500 with a cut body": (Cut(cut_response(500, RPC_ERROR), "eof"), TRANSIENT),
    "503 with an odd header": (response(503, extra="X-Note: café\r\n"), TRANSIENT),
    "403 in a charset that is none": (reply(b"no", status="403 No", kind="text/plain; charset=undefined"), DENIED),
}


@pytest.mark.parametrize("case", OPENINGS)
async def test_each_answer_of_an_endpoint_is_its_row_of_the_table(case: str, policy: Client) -> None:
    """One that may pass is tried as often as allowed; a denial or a permanent failure once (L-1, L-3, fault 10)."""
    opening, expected = OPENINGS[case]
    pauses = Pauses()
    async with BadHttp().listening() as server:
        server.opening = opening
        outcome = await loaded(HttpTarget(server.url), policy, pauses, open_seconds=PATIENT)
    attempts = 3 if expected is TRANSIENT else 1
    assert summary(outcome) == (expected, attempts)
    assert len(pauses) == attempts - 1


@pytest.mark.parametrize("case", [case for case in OPENINGS if "404" not in case])
async def test_a_failure_while_the_tools_are_listed_is_the_same_row(case: str, policy: Client) -> None:
    """The session was established; that makes a difference for a 404 only."""
    opening, expected = OPENINGS[case]
    async with BadHttp(session="one").listening() as server:
        server.listing = opening
        outcome = await loaded(HttpTarget(server.url), policy, tries=2, open_seconds=PATIENT)
    assert summary(outcome) == (expected, 2 if expected is TRANSIENT else 1)


@pytest.mark.parametrize("where", ["opening", "listing"])
async def test_a_peer_that_accepts_and_never_answers_is_transient(where: str, policy: Client) -> None:
    """Each try ends at its own deadline."""
    async with BadHttp().listening() as server:
        setattr(server, where, "hang")
        outcome = await loaded(HttpTarget(server.url), policy, tries=2, open_seconds=SHORT)
    assert summary(outcome) == (TRANSIENT, 2)
    assert outcome.error == "did not answer within 1 s"


async def test_a_session_that_is_lost_is_opened_again_once(policy: Client) -> None:
    """A 404 to a request of an established session is a try; a second one needs attention."""
    async with BadHttp(session="one").listening() as server:
        server.listing = response(404)
        assert summary(await loaded(HttpTarget(server.url), policy, Pauses(server))) == (AVAILABLE, 2)
        server.listing = response(404)
        assert summary(await loaded(HttpTarget(server.url), policy, tries=5)) == (PERMANENT, 2)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (HttpTarget("http://name.invalid/mcp"), "its host name was not found"),
        (HttpTarget("ftp://127.0.0.1/mcp"), "its URL is not http or https"),
        (HttpTarget("http://127.0.0.1:port/mcp"), "its URL is not valid"),
        (StdioTarget("no-such-command-here"), "command `no-such-command-here` was not found"),
        (StdioTarget("/etc/hostname"), "command `/etc/hostname` cannot be run"),
        (StdioTarget(sys.executable, cwd="/no/such/place"), "its working directory was not found"),
        (bad("exits"), "exited with code 3 before it answered"),
        (bad("lists without end"), "lists more than 20,000 tools"),
    ],
)
async def test_what_does_not_recover_needs_attention_at_once(target: Target, words: str, policy: Client) -> None:
    """The reason is the operator's, in words that are safe to show."""
    outcome = await loaded(target, policy, open_seconds=PATIENT)
    assert summary(outcome) == (PERMANENT, 1)
    assert words in (outcome.error or "")


async def test_a_refused_connection_needs_attention(policy: Client) -> None:
    """No process listens, and a new try would only be refused again."""
    outcome = await loaded(HttpTarget(f"http://127.0.0.1:{unused_port()}/mcp"), policy)
    assert summary(outcome) == (PERMANENT, 1)
    assert outcome.error == "refused the connection (nothing listens there)"


async def test_a_refused_connection_becomes_transient_by_an_edit_of_one_line(tmp_path: Path) -> None:
    """The classification is a rule file, and no code (L-9)."""
    policy = shutil.copytree(POLICY, tmp_path / "policy")
    rules = policy / "load_outcome.yaml"
    line = "{load.failure: timeout}, status"
    assert line in rules.read_text()
    rules.write_text(rules.read_text().replace(line, "{load.failure: [timeout, refused]}, status"))
    for tests in policy.glob("*_test.yaml"):
        tests.unlink()
    edited = local_client(policy)
    outcome = await loaded(HttpTarget(f"http://127.0.0.1:{unused_port()}/mcp"), edited)
    assert summary(outcome) == (TRANSIENT, 3)


async def test_a_denial_stays_one_where_the_url_says_timeout(policy: Client) -> None:
    """A URL is never a part of what is classified (L-3, fault 10)."""
    async with BadHttp().listening() as server:
        server.opening = response(403)
        url = f"{server.url}/upstream-timeout?error=upstream+call+timeout"
        assert summary(await loaded(HttpTarget(url), policy)) == (DENIED, 1)


async def test_a_certificate_that_is_not_trusted_needs_attention(policy: Client, tmp_path: Path) -> None:
    """TLS does not recover by itself."""
    server = BadHttp()
    server.tls = Authority(tmp_path, "stranger").server()
    async with server.listening():
        outcome = await loaded(HttpTarget(server.url), policy, open_seconds=PATIENT)
    assert summary(outcome) == (PERMANENT, 1)
    assert outcome.error == "could not be reached: no trusted TLS connection could be made"


async def test_an_endpoint_that_speaks_no_tls_needs_attention(policy: Client) -> None:
    """Its entry has the wrong scheme."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(response(400))
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        outcome = await loaded(HttpTarget(f"https://127.0.0.1:{port}/mcp"), policy, open_seconds=PATIENT)
    assert summary(outcome) == (PERMANENT, 1)


async def test_a_process_that_hangs_is_transient(policy: Client) -> None:
    """It may be slow; nothing else is known about it."""
    before = children()
    outcome = await loaded(bad("hangs"), policy, tries=2, open_seconds=SHORT)
    assert summary(outcome) == (TRANSIENT, 2)
    assert children() == before


async def test_a_process_that_writes_only_garbage_needs_attention(policy: Client) -> None:
    """It never answers, because it is not an MCP server."""
    outcome = await loaded(bad("writes garbage"), policy, open_seconds=SHORT * 10)
    assert summary(outcome) == (PERMANENT, 1)
    assert outcome.error == "did not answer within 10 s, and wrote only what is not MCP"


def raised_from(error: Exception, cause: BaseException) -> Exception:
    """Return an error as it is when another one caused it."""
    error.__cause__ = cause
    return error


SLOW = httpx2.ReadTimeout("")
RESET = raised_from(httpx2.ReadError(""), ConnectionResetError(104, ""))
REFUSED = raised_from(httpx2.ConnectError(""), ConnectionRefusedError(111, "refused"))
BOTH = OSError("All connection attempts failed")
BOTH.__cause__ = ExceptionGroup("", [TimeoutError(110, "timed out"), ConnectionRefusedError(111, "refused")])


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        ((SLOW,), (TRANSIENT, 3)),
        ((RESET,), (TRANSIENT, 3)),
        ((SLOW, RESET), (TRANSIENT, 3)),
        ((SLOW, REFUSED), (PERMANENT, 1)),
        ((REFUSED, SLOW), (PERMANENT, 1)),
        ((ExceptionGroup("", [SLOW, ExceptionGroup("", [RESET, REFUSED])]),), (PERMANENT, 1)),
        ((raised_from(RuntimeError("x"), ExceptionGroup("", [SLOW])),), (TRANSIENT, 3)),
        ((raised_from(httpx2.ConnectError(""), BOTH),), (PERMANENT, 1)),
        ((SLOW, RuntimeError("something else")), (PERMANENT, 1)),
    ],
)
async def test_a_group_of_errors_takes_its_most_careful_leaf(
    errors: tuple[Exception, ...], expected: tuple[LoadStatus, int], policy: Client
) -> None:
    """The whole group is walked, and the causes, in any order (L-1, L-2, fault 10)."""
    failure = opening_failure(ExceptionGroup("unhandled errors in a TaskGroup", list(errors)))
    assert summary(await Loader(policy, sleep=Pauses()).load(Failing(failure))) == expected


async def test_a_denial_among_others_is_a_denial(policy: Client) -> None:
    """It is more cautious than `permanent`, and its words are reported."""
    denied = Failure("was denied", status=403, kind=LoadFailure.HTTP_STATUS)
    failure = Failure.together([opening_failure(REFUSED), opening_failure(SLOW), denied])
    outcome = await Loader(policy, sleep=Pauses()).load(Failing(failure))
    assert summary(outcome) == (DENIED, 1)
    assert outcome.error == "was denied"


@pytest.mark.parametrize("target", ["http", "stdio"])
async def test_the_healthy_path_takes_one_try_and_no_pause(target: str, policy: Client) -> None:
    """What loaded is available, with its tools in their order."""
    pauses = Pauses()
    async with BadHttp().listening() as server:
        it = HttpTarget(server.url) if target == "http" else bad()
        outcome = await loaded(it, policy, pauses, open_seconds=PATIENT)
    assert summary(outcome) == (AVAILABLE, 1)
    assert outcome.tools[0].name == "pid"
    assert pauses == []


async def test_what_recovers_takes_a_second_try(policy: Client) -> None:
    """A server that is busy at the first try is available after it."""
    async with BadHttp().listening() as server:
        server.opening = response(503)
        assert summary(await loaded(HttpTarget(server.url), policy, Pauses(server))) == (AVAILABLE, 2)


async def test_pauses_grow_and_are_never_the_same(policy: Client) -> None:
    """Each is twice as long as the one before, plus up to half a second of jitter."""
    pauses = Pauses()
    async with BadHttp().listening() as server:
        server.opening = response(503)
        outcome = await loaded(HttpTarget(server.url), policy, pauses, tries=4)
    assert summary(outcome) == (TRANSIENT, 4)
    assert [least <= pause <= least + 0.5 for least, pause in zip((0.5, 1, 2), pauses, strict=True)] == [True] * 3


async def test_a_server_that_asks_for_a_pause_gets_it(policy: Client) -> None:
    """In seconds, or by a date; a pause that reaches beyond the deadline ends the load instead."""
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=20), usegmt=True)
    async with BadHttp().listening() as server:
        for given, least, most in (("7", 7, 7), (date, 3, 20), ("soon", 0.5, 1)):
            server.opening, pauses = response(429, extra=f"Retry-After: {given}\r\n"), Pauses(server)
            assert summary(await loaded(HttpTarget(server.url), policy, pauses)) == (AVAILABLE, 2)
            assert least <= pauses[0] <= most
        server.opening, pauses = response(429, extra="Retry-After: 3600\r\n"), Pauses()
        assert summary(await loaded(HttpTarget(server.url), policy, pauses)) == (TRANSIENT, 1)
        assert pauses == []


async def test_the_deadline_ends_a_load_whatever_its_tries(policy: Client) -> None:
    """A peer that accepts and never answers cannot delay it (L-4); its socket is closed."""
    async with BadHttp().listening() as server, asyncio.timeout(PATIENT):
        server.opening = "hang"
        outcome = await loaded(HttpTarget(server.url), policy, tries=100, seconds=1, open_seconds=600)
        assert summary(outcome) == (TRANSIENT, 1)
        assert outcome.error == "did not load within 1 s"
        await server.given_up.wait()


async def test_cancellation_leaves_nothing(policy: Client) -> None:
    """No task, no socket and no process; a failure does not delay the cancellation."""
    before, tasks = children(), asyncio.all_tasks()
    async with BadHttp().listening() as server, asyncio.timeout(PATIENT):
        server.opening = "hang"
        servers: dict[str, Target] = {"socket": HttpTarget(server.url), "process": bad("hangs"), "well": bad()}
        loading = asyncio.create_task(get_tools_with_resilience(servers, policy, open_seconds=600, seconds=600))
        await server.waiting.wait()
        loading.cancel()
        await asyncio.wait([loading])
        assert loading.cancelled()
        await server.given_up.wait()
    assert children() == before
    assert asyncio.all_tasks() == tasks


async def test_a_handshake_that_is_given_up_leaves_no_socket(policy: Client) -> None:
    """A peer that accepts and sends nothing of TLS is disconnected at once."""
    greeted, left = asyncio.Event(), asyncio.Event()

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        greeted.set()
        await reader.read()
        left.set()
        writer.close()

    async with await asyncio.start_server(hang, "127.0.0.1", 0) as server, asyncio.timeout(PATIENT):
        upstream = Upstream("x", HttpTarget(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"))
        loading = asyncio.create_task(Loader(policy).load(upstream))
        await greeted.wait()
        loading.cancel()
        await left.wait()
        await upstream.close()


async def test_cancelled_between_tries_a_load_makes_no_other(policy: Client) -> None:
    """The pause ends at once."""
    paused = asyncio.Event()

    async def sleep(seconds: float) -> None:
        paused.set()
        await asyncio.Event().wait()

    async with BadHttp().listening() as server:
        server.opening = response(503)
        upstream = Upstream("x", HttpTarget(server.url))
        loading = asyncio.create_task(Loader(policy, sleep=sleep).load(upstream))
        await paused.wait()
        loading.cancel()
        await asyncio.wait([loading])
        assert loading.cancelled()
        assert upstream.state == "failed"
        await upstream.close()


async def test_an_upstream_stays_open_that_a_loader_was_given(policy: Client) -> None:
    """A connection that was given up can be opened again."""
    async with BadHttp().listening() as server, asyncio.timeout(PATIENT):
        upstream = Upstream("x", HttpTarget(server.url))
        server.opening = "hang"
        assert summary(await Loader(policy, seconds=1).load(upstream)) == (TRANSIENT, 1)
        server.opening = None
        assert summary(await Loader(policy).load(upstream)) == (AVAILABLE, 1)
        assert not (await upstream.call("pid", {})).is_error
        await upstream.close()


async def test_ten_of_twenty_servers_load_whatever_the_others_do(address: str) -> None:
    """Concurrently, and over a channel; the older triple and the messages list the failed ones (L-5, L-6, L-7)."""
    async with AsyncExitStack() as stack:
        well = await stack.enter_async_context(BadHttp().listening())
        openings: dict[str, Step] = {"hangs": "hang", "resets": "reset", "busy": response(503), "denies": response(403)}
        ill = {name: await stack.enter_async_context(BadHttp().listening()) for name in openings}
        for name, server in ill.items():
            server.opening = openings[name]
        servers: dict[str, Target] = {
            **{f"good-{number}": HttpTarget(well.url) if number % 2 else bad() for number in range(10)},
            **{name: HttpTarget(server.url) for name, server in ill.items()},
            "refuses": HttpTarget(f"http://127.0.0.1:{unused_port()}/mcp"),
            "missing": StdioTarget("no-such-command-here"),
            **{name: bad(name) for name in ("exits", "hangs at once", "writes garbage", "lists without end")},
        }
        servers["hangs at once"] = bad("hangs")
        channel = await stack.enter_async_context(grpc.aio.insecure_channel(address))
        given = CallabilityServiceStub(channel)
        result = await get_tools_with_resilience(servers, given, tries=1, open_seconds=7)
    assert list(result.outcomes) == list(servers)
    by_status = {
        status: {name for name, outcome in result.outcomes.items() if outcome.status is status} for status in LoadStatus
    }
    assert by_status[AVAILABLE] == {f"good-{number}" for number in range(10)}
    assert by_status[TRANSIENT] == {"hangs", "resets", "busy", "hangs at once"}
    assert by_status[DENIED] == {"denies"}
    tools, failed, errors = result.triple
    assert [tool.name for tool in tools].count("pid") == 10
    assert set(failed) == set(servers) - by_status[AVAILABLE]
    assert dict(zip(failed, errors, strict=True))["busy"] == "answered with HTTP status 503"
    messages = result.messages()
    assert set(messages) == {TRANSIENT, DENIED, PERMANENT}
    for load_status, message in messages.items():
        assert {name for name in servers if f'"{name}"' in message} == by_status[load_status]
    assert '"missing" (could not be started: command `no-such-command-here` was not found)' in messages[PERMANENT]


async def test_a_policy_service_that_gives_no_answer_needs_attention() -> None:
    """Nothing is retried on a guess; a successful load needs no answer."""
    async with grpc.aio.insecure_channel(f"127.0.0.1:{unused_port()}") as channel, BadHttp().listening() as server:
        silent = CallabilityServiceStub(channel)
        assert summary(await loaded(HttpTarget(server.url), silent)) == (AVAILABLE, 1)
        server.opening = response(503)
        result = await get_tools_with_resilience({"x": HttpTarget(server.url)}, silent)
    assert summary(result.outcomes["x"]) == (PERMANENT, 1)
    reason = "answered with HTTP status 503; not classified, since the policy service gave no answer"
    assert result.outcomes["x"].error == reason
    assert f'"x" ({reason})' in result.messages()[PERMANENT]


async def test_only_the_names_of_a_quarantined_server_are_kept_and_a_disabled_one_is_not_connected(
    policy: Client,
) -> None:
    """The entries of a config are loaded like in a gateway (A.4)."""
    entry = {"command": sys.executable, "args": (str(BAD),)}
    servers = {
        "held": ServerConfig.model_validate({**entry, "quarantined": True}),
        "off": ServerConfig.model_validate({**entry, "enabled": False}),
    }
    result = await get_tools_with_resilience(servers, policy, open_seconds=PATIENT)
    assert list(result.outcomes) == ["held"]
    assert [(tool.name, tool.definition) for tool in result.outcomes["held"].tools] == [("pid", None)]


@pytest.fixture
def secret() -> str:
    """What no answer may contain."""
    return "s3cr3t-v4lu3"


async def test_no_secret_is_in_an_outcome(secret: str, policy: Client, caplog: pytest.LogCaptureFixture) -> None:
    """Planted in the URL, a header, the environment, an argument and the body (L-8)."""
    caplog.set_level("DEBUG")
    async with BadHttp().listening() as server:
        server.opening = response(403, f"upstream timeout for {secret}".encode())
        url = server.url.replace("//", f"//user:{secret}@") + f"?key={secret}"
        servers: dict[str, Target] = {
            "denied": HttpTarget(url, {"Authorization": f"Bearer {secret}"}),
            "refused": HttpTarget(f"http://user:{secret}@127.0.0.1:{unused_port()}/?key={secret}", {"X-Key": secret}),
            "malformed": HttpTarget(f"http://user:{secret}@127.0.0.1:port/"),
            "exits": StdioTarget(sys.executable, (str(BAD), "exits", secret), env={"TOKEN": secret}),
            "missing": StdioTarget("no-such-command-here", (secret,), env={"TOKEN": secret}),
        }
        result = await get_tools_with_resilience(servers, policy, open_seconds=PATIENT, sleep=Pauses())
    assert all(outcome.error for outcome in result.outcomes.values())
    load_status = f"{result!r} {result.triple} {result.messages()} {caplog.text}"
    assert secret not in load_status
    assert "Traceback" not in load_status
    assert str(os.getpid()) not in str(result.triple)
