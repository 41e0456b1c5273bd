"""Messages of an upstream reach the agent unchanged, and messages of an agent the upstream: compared with a direct
client.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import httpx2
import pytest
import uvicorn
from mcp import Client
from mcp.client import Transport
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult

from support.checkout import UPSTREAMS
from support.gateway_in_process import http_gateway
from support.gateway_requests import answer_in, initialized, legacy
from support.gateways import bad, call, http_gateway_process, retrieve, stdio_gateway, text_of, write_config
from support.running import command_of_script
from support.upstreams import rich
from support.upstreams.bad_http import Answer, BadHttp, refusal, reply
from support.upstreams.bad_stdio import NULLS

pytestmark = pytest.mark.anyio

Mode = Literal["auto", "legacy"]
RICH = UPSTREAMS / "rich.py"
SERVER_INFO = "io.modelcontextprotocol/serverInfo"
AGENTS: tuple[tuple[str, Mode], ...] = (("stdio", "auto"), ("stdio", "legacy"), ("http", "auto"), ("http", "legacy"))
EACH_UPSTREAM = pytest.mark.parametrize("upstream", ["rich-stdio", "rich-http"])
CALL_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Both:
    """A client of the gateway, and clients of the servers behind it."""

    agent: Client
    direct: dict[str, Client]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """The gateway runs on asyncio."""
    return "asyncio"


@pytest.fixture(scope="module")
async def http_upstream() -> AsyncIterator[str]:
    """The URL of the server over HTTP."""
    app = rich.build().streamable_http_app()
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, ws="none", timeout_graceful_shutdown=1))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        server.should_exit = True
        await serving


def _rich() -> dict[str, Any]:
    """Return the config entry of the server over stdio."""
    command, *arguments = command_of_script(RICH)
    return {"command": command, "args": arguments}


def _config(directory: Path, http_upstream: str) -> Path:
    servers = {"rich-stdio": _rich(), "rich-http": {"url": http_upstream}}
    return write_config(directory, servers, deadlines={"call_seconds": CALL_SECONDS})


@pytest.fixture(scope="module", params=AGENTS, ids="-".join)
async def both(
    request: pytest.FixtureRequest, http_upstream: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Both]:
    """An agent on each transport and in each revision, and direct clients in the same revision."""
    transport, mode = request.param
    directory = tmp_path_factory.mktemp("through")
    child = StdioServerParameters(**_rich())
    async with AsyncExitStack() as stack:
        direct = {
            "rich-stdio": await stack.enter_async_context(Client(stdio_client(child), mode=mode)),
            "rich-http": await stack.enter_async_context(Client(_over_http(http_upstream), mode=mode)),
        }
        agent = await stack.enter_async_context(_agent(transport, mode, _config(directory, http_upstream)))
        yield Both(agent, direct)


def _over_http(url: str) -> Transport:
    return streamable_http_client(url, max_sse_event_size=32 * 1024 * 1024)


@asynccontextmanager
async def _agent(transport: str, mode: Mode, config: Path, *arguments: str) -> AsyncIterator[Client]:
    async with AsyncExitStack() as stack:
        if transport == "stdio":
            log = stack.enter_context((config.parent / "gateway.log").open("w"))
            server = stdio_gateway("--config", str(config), *arguments, errlog=log)
            yield await stack.enter_async_context(Client(server, mode=mode))
        else:
            process = ExitStack()
            # In a thread: servers that answer the gateway's last requests run in this loop.
            stack.push_async_callback(asyncio.to_thread, process.close)
            # The log of a gateway in this process also has lines of its clients, which contain what they send.
            gateway = http_gateway_process(config, *arguments) if arguments else http_gateway(config)
            url = await asyncio.to_thread(process.enter_context, gateway)
            yield await stack.enter_async_context(Client(_over_http(url), mode=mode))


def _as_json(result: CallToolResult) -> dict[str, Any]:
    """Return a result as MCP writes it, without the server's own name, which a newer revision adds."""
    sent_on = result.model_dump(mode="json", by_alias=True)
    meta = sent_on["_meta"] or {}
    if meta.get(SERVER_INFO, {}).get("name") in {"rich", "callability"}:
        del meta[SERVER_INFO]
    return sent_on | {"_meta": meta}


@EACH_UPSTREAM
@pytest.mark.parametrize("tool", [name for name in rich.RESULTS if name != "too large an answer"])
async def test_a_result_is_what_a_direct_client_gets(tool: str, upstream: str, both: Both) -> None:
    """Every kind of content with all its keys, odd JSON, an error, and names with any characters."""
    direct = await both.direct[upstream].call_tool(tool, {})
    through = await call(both.agent, f"{upstream}:{tool}")
    assert json.dumps(_as_json(through)) == json.dumps(_as_json(direct))
    names = [(result.meta or {}).get(SERVER_INFO, {}).get("name") for result in (through, direct)]
    assert names in (["callability", "rich"], [None, None])


@EACH_UPSTREAM
@pytest.mark.parametrize("tool", ["every kind of content", "odd JSON", "an error"])
async def test_a_result_has_what_the_upstream_gave_it(tool: str, upstream: str, both: Both) -> None:
    """To the last key, as both kinds of client read it."""
    through = (await call(both.agent, f"{upstream}:{tool}")).model_dump(mode="json", by_alias=True, exclude_none=True)
    given = rich.RESULTS[tool]
    assert through["content"] == given["content"]
    assert through["isError"] == given.get("isError", False)
    assert given.get("_meta", {}).items() <= through.get("_meta", {}).items()
    whole = _as_json(await call(both.agent, f"{upstream}:{tool}"))
    assert json.dumps(whole["structuredContent"]) == json.dumps(given.get("structuredContent"))


@EACH_UPSTREAM
async def test_the_meta_of_a_call_reaches_the_upstream(upstream: str, both: Both) -> None:
    """Metadata of the agent's own connection stays there: its progress token, baggage, and keys that MCP reserves."""
    meta: Any = {
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "baggage": "account=of the agent",
        "example.org/custom": {"deep": [None, 2**63]},
        "io.modelcontextprotocol/related-task": {"taskId": "of the agent"},
        "progress_token": "of the agent",
    }
    arguments = {"name": f"{upstream}:meta", "arguments": {}}
    result = await both.agent.session.call_tool("call_tool", arguments, meta=meta)
    sent_on = result.structured_content
    assert sent_on is not None
    assert sent_on["traceparent"].split("-")[1] == meta["traceparent"].split("-")[1]
    assert sent_on["example.org/custom"] == meta["example.org/custom"]
    assert "of the agent" not in json.dumps(sent_on)
    assert sent_on.get("io.modelcontextprotocol/clientInfo", {"name": "callability"})["name"] == "callability"


@EACH_UPSTREAM
async def test_progress_reaches_the_agent_in_order_and_before_the_answer(upstream: str, both: Both) -> None:
    """With its total and its message, if given."""
    heard: list[tuple[float, float | None, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))

    arguments = {"name": f"{upstream}:progress", "arguments": {}}
    result = await both.agent.call_tool("call_tool", arguments, progress_callback=hear)
    assert not result.is_error
    assert heard == [(1, 3, "one"), (2.5, 3, "two and a half"), (3, None, None)]


@EACH_UPSTREAM
async def test_a_call_that_the_agent_cancels_is_cancelled_at_the_upstream(upstream: str, both: Both) -> None:
    """The handler of the server sees it, and nothing else is disturbed."""
    waiting = asyncio.create_task(call(both.agent, f"{upstream}:wait"))
    assert not (await call(both.agent, f"{upstream}:is waiting")).is_error
    waiting.cancel()
    assert not (await call(both.agent, f"{upstream}:was cancelled")).is_error
    with pytest.raises(asyncio.CancelledError):
        await waiting


@EACH_UPSTREAM
async def test_an_answer_that_is_too_large_is_an_error_that_says_so(upstream: str, both: Both) -> None:
    """17 MB, while 16 MiB is the maximum; the next answer arrives."""
    result = await call(both.agent, f"{upstream}:too large an answer")
    words = "sent a message of more than 16 MiB; the call may have been carried out"
    assert (result.is_error, text_of(result)) == (True, f"Not done: server `{upstream}` {words}.")
    assert not (await call(both.agent, f"{upstream}:nothing")).is_error


@EACH_UPSTREAM
async def test_a_tool_is_found_with_the_schema_and_the_annotations_of_its_upstream(upstream: str, both: Both) -> None:
    """As a direct client lists it, under its name and its server's."""
    listed = {tool.name: tool for tool in (await both.direct[upstream].list_tools()).tools}
    found = await retrieve(both.agent, "sheep", limit=100, schemas="full")
    entries = {each["name"]: each for each in found["tools"]}
    for name, tool in listed.items():
        as_json = tool.model_dump(mode="json", by_alias=True, exclude_none=True)
        assert entries[f"{upstream}:{name}"] == {
            "name": f"{upstream}:{name}",
            "server": upstream,
            "description": as_json["description"],
            "inputSchema": as_json["inputSchema"],
            "annotations": as_json["annotations"],
        }


async def test_a_name_that_two_servers_have_is_each_ones_own(both: Both) -> None:
    """The agent names the server."""
    pids = [(await call(both.agent, f"{upstream}:same")) for upstream in ("rich-stdio", "rich-http")]
    assert [text_of(each) for each in pids] == ["same", "same"]


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_call_past_its_deadline_is_cancelled_and_said_to_be(
    transport: str, http_upstream: str, tmp_path: Path
) -> None:
    """The upstream's handler is cancelled."""
    servers = {"rich-stdio": _rich(), "rich-http": {"url": http_upstream}}
    config = write_config(tmp_path, servers, deadlines={"call_seconds": 10})
    async with _agent(transport, "auto", config) as agent:
        for upstream in servers:
            waiting = asyncio.create_task(call(agent, f"{upstream}:wait"))
            # A child that sends nothing at all until the deadline counts as hanging, and is replaced.
            await call(agent, f"{upstream}:is waiting")
            sent_on = text_of(await waiting)
            words = "did not answer within 10 s; the call may have been carried out"
            assert sent_on == f"Not done: server `{upstream}` {words}."
            assert not (await call(agent, f"{upstream}:was cancelled")).is_error


TRANSPORTS = pytest.mark.parametrize("transport", ["stdio", "http"])


@TRANSPORTS
async def test_what_a_server_writes_on_standard_error_is_logged_and_not_answered(
    transport: str, tmp_path: Path
) -> None:
    """With the server's name, for the operator."""
    config = write_config(tmp_path, {"rich": _rich()})
    async with _agent(transport, "auto", config) as agent:
        answer = await call(agent, "rich:say on stderr")
        servers = await agent.call_tool("upstream_servers", {})
    assert "standard error" not in answer.model_dump_json() + servers.model_dump_json()
    assert "`rich` stderr: a word on standard error" in (tmp_path / "gateway.log").read_text()


SECRETS = {place: f"s3cr3t-of-the-{place}" for place in ("env", "args", "header", "user", "query", "command")}


def _secretive(url: str) -> dict[str, Any]:
    """Return the config of servers that get a secret in every place that can hold one."""
    secret = SECRETS
    url = url.replace("//", f"//user:{secret['user']}@") + f"?key={secret['query']}"
    return {
        "child": bad("lists all", "--api-key", secret["args"], env={"TOKEN": secret["env"]}),
        "gone": {"command": "no-such-command-here", "args": [secret["command"]], "env": {"TOKEN": secret["env"]}},
        "http": {"url": url, "headers": {"Authorization": f"Bearer {secret['header']}"}},
        "refused": {"url": f"http://{secret['user']}@127.0.0.1:9/mcp?key={secret['query']}"},
    }


@TRANSPORTS
async def test_no_secret_of_the_config_is_in_an_answer_or_in_the_log(transport: str, tmp_path: Path) -> None:
    """At the most talkative level, whatever fails, and where servers write them on their standard error or refuse calls
    with them. A result that an upstream gives is its own, and is passed on.
    """
    echo = " ".join(SECRETS.values()).encode()
    steps: dict[str, Answer] = {
        "a status": reply(echo, status="403 Forbidden"),
        "no MCP": reply(b'{"' + echo + b'": 1}'),
        "events": reply(b"data: " + echo + b"\n\n", kind="text/event-stream"),
        "elsewhere": reply(b"", status="307 Moved", extra=f"Location: http://[::1]:9/?key={SECRETS['query']}\r\n"),
        "no HTTP": echo + b"\r\n\r\n",
        "reset": "reset",
        "refusal": lambda request: refusal(request, f"you sent {server.head}"),
    }
    server = BadHttp(session=SECRETS["header"], answers=steps)
    answers: list[CallToolResult] = []
    async with server.listening():
        config = write_config(tmp_path, _secretive(server.url), deadlines={"call_seconds": 120, "open_seconds": 120})
        async with _agent(transport, "auto", config, "--log-level", "debug") as agent:
            names = [f"http:{step}" for step in steps] + ["gone:x", "refused:x"]
            names += ["child:secrets", "child:refuse with secrets", "child:exit"]
            answers += [await call(agent, name) for name in names]
            answers.append(await agent.call_tool("retrieve_tools", {"query": "secrets", "include_disabled": True}))
            answers.append(await agent.call_tool("upstream_servers", {}))
    log = (tmp_path / "gateway.log").read_text()
    assert "`child` stderr: my token is ***" in log
    sent_on = log + "".join(answer.model_dump_json() for answer in answers)
    assert sent_on.count("It said: ") == 2
    assert [place for place, secret in SECRETS.items() if secret in sent_on] == []


async def _passed(
    url: str, name: str, arguments: dict[str, Any], given: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return the result of a call as it is on the wire, where `given` is metadata of the call."""
    own = {"protocolVersion": "2026-07-28", "clientInfo": {"name": "x", "version": "1"}, "clientCapabilities": {}}
    meta = {**(given or {}), **{f"io.modelcontextprotocol/{key}": value for key, value in own.items()}}
    params = {"name": name, "arguments": arguments, "_meta": meta}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": name,
    }
    async with httpx2.AsyncClient(timeout=120) as client:
        result: dict[str, Any] = (await client.post(url, json=message, headers=headers)).json()["result"]
    assert result["_meta"].pop(SERVER_INFO)["name"] in {"rich", "callability"}
    return result


async def test_on_the_wire_an_answer_is_the_upstreams_to_the_last_key(http_upstream: str, tmp_path: Path) -> None:
    """Without a client in between, since every client might omit the same key."""
    process = ExitStack()
    url = await asyncio.to_thread(process.enter_context, http_gateway(_config(tmp_path, http_upstream)))
    try:
        for tool in ("every kind of content", "odd JSON", "an error", "nothing"):
            through = await _passed(url, "call_tool", {"name": f"rich-http:{tool}", "arguments": {}})
            direct = await _passed(http_upstream, tool, {})
            assert json.dumps(through, sort_keys=True) == json.dumps(direct, sort_keys=True)
    finally:
        await asyncio.to_thread(process.close)


@EACH_UPSTREAM
async def test_a_null_in_the_metadata_of_a_call_reaches_the_upstream(
    upstream: str, http_upstream: str, tmp_path: Path
) -> None:
    """Also at its top level, where a client of the SDK could not even send it."""
    given = {"example.org/null": None, "example.org/deep": {"null": None}}
    process = ExitStack()
    url = await asyncio.to_thread(process.enter_context, http_gateway(_config(tmp_path, http_upstream)))
    try:
        sent = await _passed(url, "call_tool", {"name": f"{upstream}:meta", "arguments": {}}, given)
        assert given.items() <= sent["structuredContent"].items()
    finally:
        await asyncio.to_thread(process.close)


async def test_a_null_in_the_metadata_of_an_answer_reaches_the_agent(tmp_path: Path) -> None:
    """In each place that has metadata, in both revisions; a server of the SDK could not even send it."""
    config = write_config(tmp_path, {"it": bad("lists all")})
    process = ExitStack()
    url = await asyncio.to_thread(process.enter_context, http_gateway(config))
    try:
        modern = await _passed(url, "call_tool", {"name": "it:nulls", "arguments": {}})
        async with httpx2.AsyncClient(timeout=120) as client:
            session = (await initialized(client, url)).headers["mcp-session-id"]
            params = {"name": "call_tool", "arguments": {"name": "it:nulls"}}
            legacy_one = answer_in((await client.post(url, **legacy("tools/call", params, session))).text)["result"]
        for result in (modern, legacy_one):
            assert (result["content"], result["_meta"]) == (NULLS["content"], NULLS["_meta"])
    finally:
        await asyncio.to_thread(process.close)
