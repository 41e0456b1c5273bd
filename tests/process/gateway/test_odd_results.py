"""Results that are not as MCP says: what is odd in one costs nothing but itself, and is named."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp_types import CallToolResult

from callability.gateway.upstream.failure import UpstreamError
from callability.gateway.upstream.target import HttpTarget, StdioTarget
from callability.gateway.upstream.upstream import Upstream
from support.checkout import UPSTREAMS
from support.gateway_in_process import client_of, http_gateway
from support.gateway_requests import answer_in, initialized, legacy, modern
from support.gateways import bad, call, retrieve, write_config
from support.upstreams.bad_http import BadHttp, reply, result
from support.waiting import becomes

pytestmark = pytest.mark.anyio

BAD = UPSTREAMS / "bad_stdio.py"
PATIENT = 120
TEXT = {"type": "text", "text": "fine"}
FINE = {"name": "fine", "inputSchema": {"type": "object"}}
MODERN = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


@pytest.fixture
def anyio_backend() -> str:
    """The gateway runs on asyncio."""
    return "asyncio"


def replied(text: str, how: str) -> Callable[[dict[str, Any]], bytes]:
    """Return what answers a request with a result, given as JSON."""

    def answer(request: dict[str, Any]) -> bytes:
        body = f'{{"jsonrpc":"2.0","id":{request["id"]},"result":{text}}}'.encode()
        events = b"event: message\ndata: " + body + b"\n\n"
        if how == "compressed":
            return reply(gzip.compress(events), kind="text/event-stream", extra="Content-Encoding: gzip\r\n")
        return reply(events, kind="text/event-stream") if how == "events" else reply(body)

    return answer


def modern_too(result: dict[str, Any]) -> str:
    """Return a result as JSON that both revisions know."""
    return json.dumps({**MODERN, **result})


@asynccontextmanager
async def answering(text: str, how: str) -> AsyncIterator[Upstream]:
    """Yield an upstream whose server answers each call with a result, given as JSON."""
    if how == "stdio":
        it = Upstream("x", StdioTarget(sys.executable, (str(BAD), "answers this", text)), open_seconds=PATIENT)
        try:
            yield it
        finally:
            await it.close()
        return
    server = BadHttp(modern=how != "session", session="one" if how == "session" else "")
    async with server.listening():
        it = Upstream("x", HttpTarget(server.url), open_seconds=PATIENT, call_seconds=PATIENT)
        server.answers["pid"] = replied(text, how)
        try:
            yield it
        finally:
            await it.close()


def texts(answer: CallToolResult) -> list[str]:
    """Return the texts of an answer."""
    return [block.text for block in answer.content if block.type == "text"]


HALVES = {
    r'"\ud83d"': "\ufffd",
    r'"\ude00\ud83d\ude00\ud83d"': "\ufffd\U0001f600\ufffd",
    r'"\\ud83d \\\ud83d\u00e9"': "\\ud83d \\\ufffd\u00e9",
    r'"\uD83D\u0041"': "\ufffdA",
}


@pytest.mark.parametrize("how", ["session", "stateless", "events", "compressed", "stdio"])
@pytest.mark.parametrize("written", HALVES)
async def test_half_a_surrogate_pair_is_replaced_and_the_answer_arrives(written: str, how: str) -> None:
    """Whole pairs, and backslashes that only look like the start of one, stay what they are."""
    text = '{"resultType":"complete","content":[{"type":"text","text":%s}],"structuredContent":{"a":%s}}'
    async with answering(text % (written, written), how) as it:
        answer = await it.call("pid", {})
        assert texts(answer) == [HALVES[written]]
        assert answer.structured_content == {"a": HALVES[written]}


ODD: dict[str, tuple[dict[str, Any], list[Any], list[str]]] = {
    "no content": ({}, [], []),
    "null as content": ({"content": None, "isError": None, "structuredContent": None, "_meta": None}, [], []),
    "only structured": ({"structuredContent": {"a": 1}}, [], []),
    "null as error": ({"content": [TEXT], "isError": None}, [TEXT], []),
    "audience": (
        {"content": [TEXT | {"annotations": {"audience": ["robot"], "priority": 1, "own": None}}]},
        [TEXT | {"annotations": {"priority": 1, "own": None}}],
        ["content[0].annotations.audience"],
    ),
    "annotations": ({"content": [TEXT | {"annotations": []}]}, [TEXT], ["content[0].annotations"]),
    "metadata": ({"content": [TEXT | {"_meta": []}], "_meta": []}, [TEXT], ["content[0]._meta", "_meta"]),
    "icons": (
        {"content": [{"type": "resource_link", "uri": "x:1", "name": "n", "icons": [{}], "size": "big"}]},
        [{"type": "resource_link", "uri": "x:1", "name": "n"}],
        ["content[0].icons", "content[0].size"],
    ),
    "resource": (
        {"content": [{"type": "resource", "resource": {"uri": "x:1", "text": "t", "_meta": 3, "mimeType": None}}]},
        [{"type": "resource", "resource": {"uri": "x:1", "text": "t"}}],
        ["content[0].resource._meta"],
    ),
    "an unknown type": ({"content": [TEXT, {"type": "video"}, TEXT]}, [TEXT, None, TEXT], ["content[1].type"]),
    "no type": ({"content": [{"text": "a"}, TEXT]}, [None, TEXT], ["content[0].type"]),
    "no text": ({"content": [TEXT, {"type": "text"}]}, [TEXT, None], ["content[1].text"]),
    "null as text": ({"content": [{"type": "text", "text": None}, TEXT]}, [None, TEXT], ["content[0].text"]),
    "no object": ({"content": [TEXT, "words"]}, [TEXT, None], ["content[1]"]),
    "image": ({"content": [{"type": "image", "data": ""}, TEXT]}, [None, TEXT], ["content[0].mimeType"]),
    "nothing of a resource": (
        {"content": [{"type": "resource", "resource": {"uri": 1, "blob": ""}}, TEXT]},
        [None, TEXT],
        ["content[0].resource.uri"],
    ),
    "text as content": ({"content": "no list"}, [None], ["content"]),
}


@pytest.mark.parametrize("how", ["session", "stateless", "events", "stdio"])
@pytest.mark.parametrize("case", ODD)
async def test_an_odd_answer_costs_what_is_odd_and_names_it(
    case: str, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """In the answer and in the log, which says it once: the rest arrives as it came, unknown members included."""
    given, blocks, places = ODD[case]
    more = {"own": [None], "ttl": {"a": None}}
    async with answering(modern_too({**given, **more}), how) as it:
        first, second = await it.call("pid", {}), await it.call("pid", {})
        assert it.state == "connected"
    assert first == second
    wire = getattr(first, "wire", {})
    assert {key: wire[key] for key in more} == more
    assert len(wire["content"]) == len(first.content) == len(blocks)
    for block, wanted, place in zip(wire["content"], blocks, [*places, *[""] * len(blocks)], strict=False):
        assert wanted is None or block == wanted
        assert wanted is not None or place == "" or "The gateway cannot read `content" in block["text"]
    assert wire.get("structuredContent") == given.get("structuredContent")
    named = json.dumps(wire)
    lines = [record.getMessage() for record in caplog.records if "with what MCP does not allow" in record.getMessage()]
    assert len(lines) == bool(places)
    for place in places:
        assert place in named
        assert f"`{place}`" in lines[0]


@pytest.mark.parametrize(("given", "failed"), [("true", True), (1, True), ("no", False), ({}, True), ("?", True)])
async def test_what_cannot_be_read_of_an_error_counts_as_one(given: object, failed: bool) -> None:
    """An answer that may be an error is none that may not."""
    async with answering(modern_too({"content": [TEXT], "isError": given}), "stdio") as it:
        assert (await it.call("pid", {})).is_error is failed


async def test_an_odd_answer_can_be_read_by_clients_of_both_revisions(tmp_path: Path) -> None:
    """They would refuse the whole of it; on the wire it has what the upstream added of its own."""
    server = BadHttp(modern=True)
    for case, (given, _, _) in ODD.items():
        server.answers[case] = replied(modern_too({**given, "own": {"a": None}}), "json")
    server.answers["a list"] = replied(modern_too({"structuredContent": [1]}), "json")
    async with server.listening():
        config = write_config(tmp_path, {"it": {"url": server.url, "type": "http", "trust": "auto"}})
        with http_gateway(config) as url:
            for mode in ("auto", "legacy"):
                async with Client(url, mode=mode) as client:
                    for case in server.answers:
                        answer = await call(client, f"it:{case}")
                        assert not answer.is_error, answer
            async with httpx2.AsyncClient(timeout=PATIENT) as client:
                session = (await initialized(client, url)).headers["mcp-session-id"]
                for case, (given, _, _) in ODD.items():
                    params = {"name": "call_tool", "arguments": {"name": f"it:{case}"}}
                    for request in (modern("tools/call", params), legacy("tools/call", params, session)):
                        wire = answer_in((await client.post(url, **request)).text)["result"]
                        assert wire["own"] == {"a": None}
                        assert wire.get("structuredContent") == given.get("structuredContent")
                params = {"name": "call_tool", "arguments": {"name": "it:a list"}}
                earlier = answer_in((await client.post(url, **legacy("tools/call", params, session))).text)["result"]
    assert (earlier["content"], "structuredContent" in earlier) == ([{"type": "text", "text": "[1]"}], False)


WHOLES = {
    '"result":null': "its `result` is not an object",
    '"result":[]': "its `result` is not an object",
    '"error":"no"': "its `error` is not an object",
    '"error":{"code":"E1","message":"no"}': "its `error.code` is not a whole number",
    '"error":{"code":1,"message":null}': "its `error.message` is not text",
    '"answer":1': "it has no `result`",
}


@pytest.mark.parametrize("case", WHOLES)
async def test_an_answer_that_is_none_says_what_is_odd(case: str) -> None:
    """There is nothing of it that could be passed on."""
    server = BadHttp(modern=True)
    server.answers["pid"] = lambda request: reply(f'{{"jsonrpc":"2.0","id":{request["id"]},{case}}}'.encode())
    async with server.listening():
        it = Upstream("x", HttpTarget(server.url), open_seconds=PATIENT, call_seconds=PATIENT)
        with pytest.raises(UpstreamError, match=f"answered with something that is not MCP: {WHOLES[case]}; the call"):
            await it.call("pid", {})
        assert it.state == "connected"
        await it.close()


OPENINGS: dict[str, dict[str, Any]] = {
    "icons": {"serverInfo": {"name": "x", "version": "1", "icons": [{}]}},
    "no name": {"serverInfo": {}},
    "no server": {"serverInfo": None},
    "metadata": {"_meta": []},
    "instructions": {"instructions": ["a"]},
    "capabilities": {"capabilities": {"tools": {}, "experimental": [], "logging": True, "prompts": 3}},
    "no capabilities": {"capabilities": None},
    "versions": {"supportedVersions": ["2026-07-28", 3]},
    "its own name": {"_meta": {"io.modelcontextprotocol/serverInfo": {"icons": [{}]}}},
    "cache": {"ttlMs": "never", "cacheScope": "mine", "resultType": 3},
}


@pytest.mark.parametrize("era", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("case", OPENINGS)
async def test_an_odd_member_of_the_opening_costs_nothing(case: str, era: str) -> None:
    """The gateway neither shows it nor decides by it."""
    server = BadHttp(modern=era == "2026-07-28")
    version = {"protocolVersion": "2025-11-25"} if era == "2025-11-25" else {"supportedVersions": [era]}
    value = {"capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}, **version, **OPENINGS[case]}
    method = "initialize" if era == "2025-11-25" else "server/discover"

    def opening(request: dict[str, Any]) -> bytes:
        return reply(result(request, value) if request["method"] == method else b"", status="200 OK")

    server.opening = opening
    async with server.listening():
        it = Upstream("x", HttpTarget(server.url), open_seconds=PATIENT)
        await it.connect()
        assert [tool.name for tool in it.tools] == ["pid", "hold"]
        assert not (await it.call("pid", {})).is_error
        await it.close()


HARMLESS: list[dict[str, Any]] = [
    {"icons": [{}]},
    {"icons": "x"},
    {"_meta": []},
    {"title": 5},
    {"outputSchema": []},
    {"outputSchema": {"type": 3}},
    {"annotations": None, "execution": None, "description": None},
    {"inputSchema": {}},
    {"inputSchema": {"type": "object", "required": None, "properties": None}},
    {"inputSchema": {"type": "object", "required": "a", "properties": {"a": 3}, "$schema": 4}},
    {"own": {"a": None}},
]
DEEP: list[Any] = []
for _ in range(400):
    DEEP = [DEEP]
UNUSABLE: list[tuple[object, str]] = [
    (3, "tool number 1 is not an object"),
    ({"inputSchema": {}}, "tool number 1 has no `name`"),
    ({"name": "odd"}, "tool `odd` has no `inputSchema`"),
    ({"name": "odd", "inputSchema": []}, "tool `odd` has no valid `inputSchema`"),
    ({"name": "odd", "inputSchema": {"type": "array"}}, "tool `odd` has no valid `inputSchema.type`"),
    (FINE | {"name": "odd", "description": []}, "tool `odd` has no valid `description`"),
    (FINE | {"name": "odd", "annotations": []}, "tool `odd` has no valid `annotations`"),
    (
        FINE | {"name": "odd", "annotations": {"readOnlyHint": {}}},
        "tool `odd` has no valid `annotations.readOnlyHint`",
    ),
    (
        {"inputSchema": {"type": "object", "a": DEEP}, "title": "]}", "name": "odd"},
        "tool `odd` is nested more than 200 levels deep",
    ),
    (FINE | {"name": "odd", "execution": {"taskSupport": "?"}}, "tool `odd` has no valid `execution.taskSupport`"),
]


@pytest.mark.parametrize("how", ["session", "stateless", "events", "stdio"])
async def test_an_odd_tool_costs_nothing_where_nothing_is_decided_by_what_is_odd(how: str, tmp_path: Path) -> None:
    """It is found and called as if that were not there, as are the tools beside it."""
    tools = [{**FINE, "name": f"odd{index}", **odd} for index, odd in enumerate(HARMLESS)]
    async with listing([FINE, *tools], how, tmp_path) as (client, _):
        found = [await retrieve(client, query, limit=100, include_disabled=True) for query in ("odd", "fine")]
        names = {each["name"] for answer in found for each in answer["tools"]}
        assert names == {f"it:{tool['name']}" for tool in (FINE, *tools)}
        [it] = await servers(client)
        assert (it["state"], "note" in it, "error" in it["load"]) == ("connected", False, False)


@pytest.mark.parametrize("how", ["session", "stateless", "events", "stdio"])
@pytest.mark.parametrize(("odd", "words"), UNUSABLE)
async def test_an_unusable_tool_is_left_out_and_the_others_work(
    odd: object, words: str, how: str, tmp_path: Path
) -> None:
    """The log, a note and the load say which, and why."""
    async with listing([odd, FINE], how, tmp_path) as (client, log):
        found = await retrieve(client, "fine", include_disabled=True)
        assert [each["name"] for each in found["tools"]] == ["it:fine"]
        [it] = await servers(client)
        said = f"lists tools that cannot be used, and are left out: {words}"
        assert (it["state"], it["load"]["status"], it["load"]["error"], it["note"]) == (
            "connected",
            "available",
            said,
            said,
        )
        assert (await call(client, "it:odd")).is_error
        assert f"`it` {said}" in log.read_text()


async def test_a_header_that_mcp_forbids_leaves_its_tool_out_by_name(tmp_path: Path) -> None:
    """MCP demands that the tool is not used; it does not vanish."""
    odd = {"name": "odd", "inputSchema": {"type": "object", "x-mcp-header": "A"}}
    async with listing([odd, FINE], "stateless", tmp_path) as (client, _):
        [it] = await servers(client)
        assert "tool `odd` has an `x-mcp-header` that MCP does not allow" in it["note"]


async def test_a_quarantined_server_has_no_names_in_its_note(tmp_path: Path) -> None:
    """Nothing that it wrote is shown."""
    async with listing([{"name": "odd"}, FINE], "stdio", tmp_path, quarantined=True) as (client, _):
        [it] = await servers(client)
        assert it["note"] == "lists tools that cannot be used, and are left out"


async def test_a_tool_that_becomes_unusable_in_mid_session_is_left_out(tmp_path: Path) -> None:
    """The others go on, on the same connection; when it is fixed, it is back."""
    server = BadHttp(session="one")
    fixed = FINE | {"name": "odd", "icons": [{}]}
    server.listing = replied(json.dumps({"tools": [fixed, FINE]}), "json")
    async with server.listening():
        entry = {"url": server.url, "type": "http", "trust": "auto"}
        config = write_config(tmp_path, {"it": entry}, deadlines={"refresh_seconds": 0.2})
        async with client_of(config) as client:

            async def names() -> tuple[list[str], bool]:
                found = await retrieve(client, "odd fine", include_disabled=True)
                [it] = await servers(client)
                return sorted(each["name"] for each in found["tools"]), "note" in it

            await becomes(names, (["it:fine", "it:odd"], False))
            server.listing = replied(json.dumps({"tools": [{"name": "odd"}, FINE]}), "json")
            await becomes(names, (["it:fine"], True))
            server.listing = replied(json.dumps({"tools": [fixed, FINE]}), "json")
            await becomes(names, (["it:fine", "it:odd"], False))
    assert server.requested_methods.count("initialize") == 1


async def test_a_cursor_that_comes_twice_ends_the_list() -> None:
    """What was listed until then is the list."""
    target = StdioTarget(sys.executable, (str(BAD), "lists a cursor twice"))
    it = Upstream("x", target, open_seconds=PATIENT)
    await it.connect()
    assert {tool.name for tool in it.tools} == {"pid"}
    await it.close()


@asynccontextmanager
async def listing(tools: list[Any], how: str, directory: Path, **keys: Any) -> AsyncIterator[tuple[Client, Path]]:
    """Yield a client of a gateway in front of a server that lists tools, and the log."""
    text = modern_too({"tools": tools})
    log = directory / "gateway.log"
    if how == "stdio":
        config = write_config(directory, {"it": bad("lists this", text, trust="auto", **keys)})
        async with client_of(config) as client:
            await settled(client)
            yield client, log
        return
    server = BadHttp(modern=how in ("stateless", "events"), session="one" if how == "session" else "")
    server.listing = replied(text, how)
    async with server.listening():
        config = write_config(directory, {"it": {"url": server.url, "type": "http", "trust": "auto", **keys}})
        async with client_of(config) as client:
            await settled(client)
            yield client, log


async def servers(client: Client) -> list[dict[str, Any]]:
    """Return what `upstream_servers` lists."""
    answer = (await client.call_tool("upstream_servers", {})).structured_content
    assert answer is not None
    listed: list[dict[str, Any]] = answer["servers"]
    return listed


async def settled(client: Client) -> None:
    """Wait until the server has loaded."""

    async def state() -> bool:
        return all("load" in each for each in await servers(client))

    await becomes(state, True)
