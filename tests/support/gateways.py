"""Real gateways in front of real servers, and the clients that ask them."""

from __future__ import annotations

import hashlib
import json
import shlex
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TextIO

import httpx2
from mcp import Client
from mcp.client._transport import TransportStreams
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult

from support.checkout import UPSTREAMS
from support.gateway_in_process import http_gateway
from support.running import COMMAND, start, starting_commands

SHELF = UPSTREAMS / "shelf.py"
BAD = UPSTREAMS / "bad_stdio.py"
READ = {"name": "read_file", "description": "Reads a file."}
SEND = {"name": "send_mail", "description": "Sends a letter."}


def shelf(directory: Path, name: str, *tools: dict[str, Any], **keys: Any) -> dict[str, Any]:
    """Return the config entry of a server with these tools."""
    path = directory / f"{name}-tools.json"
    path.write_text(json.dumps(tools))
    return {"command": sys.executable, "args": [str(SHELF), str(path)], **keys}


def alternating(
    directory: Path, name: str, first: list[dict[str, Any]], second: list[dict[str, Any]], **keys: Any
) -> dict[str, Any]:
    """Return the config entry of a server that lists the `first` tools whenever it starts an odd time, else others."""
    entries = shelf(directory, f"{name}-0", *first), shelf(directory, f"{name}-1", *second)
    program = directory / f"{name}-alternating"
    starts = directory / f"{name}-starts"
    starts.write_text("")
    program.write_text(
        f"#!/bin/sh\nstarts=$(wc -c < {starts})\nprintf . >> {starts}\n"
        f"[ $((starts % 2)) = 0 ] && exec {shlex.join([sys.executable, *entries[0]['args']])}\n"
        f"exec {shlex.join([sys.executable, *entries[1]['args']])}\n"
    )
    program.chmod(0o755)
    return {"command": str(program), **keys}


def bad(*how: str, **keys: Any) -> dict[str, Any]:
    """Return the config entry of a server that misbehaves."""
    return {"command": sys.executable, "args": [str(BAD), *how], **keys}


def held_back(directory: Path, running: dict[str, Any], **keys: Any) -> dict[str, Any]:
    """Return the config entry of a program that becomes a server once the file `released` exists."""
    program = directory / "held"
    program.write_text(
        f"#!/bin/sh\nuntil [ -e {directory}/released ]; do sleep 0.02; done\n"
        f"exec {shlex.join([running['command'], *running['args']])}\n"
    )
    program.chmod(0o755)
    return {"command": str(program), **keys}


def write_config(directory: Path, servers: dict[str, Any], **keys: Any) -> Path:
    """Write a config and return its path; its servers have long deadlines for opening, unless one is given."""
    keys["deadlines"] = {"open_seconds": 120} | keys.get("deadlines", {})
    path = directory / "mcp_config.json"
    path.write_text(json.dumps({"mcpServers": servers, **keys}, indent=2))
    return path


@contextmanager
def http_gateway_process(
    config: Path, *arguments: str, address: str = "127.0.0.1:0", fresh: bool = False
) -> Iterator[str]:
    """Run `callability gateway` over HTTP as a process and yield its URL; `fresh` is that of `start`."""
    command = ("gateway", "--config", str(config), "--transport", "http", "--address", address)
    with (
        (config.parent / "gateway.log").open("w") as log,
        start(*command, *arguments, fresh=fresh, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("listening on "), (config.parent / "gateway.log").read_text()
            yield line.removeprefix("listening on ").strip()
        finally:
            process.terminate()
            process.communicate(timeout=120)


@asynccontextmanager
async def stdio_gateway(*arguments: str, errlog: TextIO, **options: Any) -> AsyncIterator[TransportStreams]:
    """Run `callability gateway` as a process, the server of a client; options are those of `StdioServerParameters`."""
    command, *rest = [*COMMAND, "gateway", *arguments]
    transport = stdio_client(StdioServerParameters(command=command, args=rest, **options), errlog=errlog)
    async with AsyncExitStack() as stack:
        with starting_commands():
            streams = await stack.enter_async_context(transport)
        yield streams


@asynccontextmanager
async def over_stdio(config: Path, *arguments: str) -> AsyncIterator[Client]:
    """Run `callability gateway` over stdio as a process, and yield a client that is connected to it."""
    with (config.parent / "gateway.log").open("w") as log:
        async with Client(stdio_gateway("--config", str(config), *arguments, errlog=log)) as client:
            yield client


@asynccontextmanager
async def connected(transport: str, config: Path, *arguments: str) -> AsyncIterator[Client]:
    """Yield a client of a gateway over one of the transports."""
    if transport == "stdio":
        async with over_stdio(config, *arguments) as client:
            yield client
    else:
        with http_gateway(config, *arguments) as url:
            async with Client(url) as client:
                yield client


def token_of(agent: str) -> str:
    """Return the token of an agent of `agents_of`."""
    return f"token of {agent}"


def agents_of(scopes: Mapping[str, Iterable[str]]) -> dict[str, Any]:
    """Return the agents of a config, each with the servers that it may see."""
    return {
        name: {"token_sha256": hashlib.sha256(token_of(name).encode()).hexdigest(), "servers": list(servers)}
        for name, servers in scopes.items()
    }


@asynccontextmanager
async def client_with(url: str, token: str | None, tls: ssl.SSLContext | None = None) -> AsyncIterator[Client]:
    """Yield a client of a gateway that sends a token."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=120, verify=tls or True) as http_client,
        Client(streamable_http_client(url, http_client=http_client)) as client,
    ):
        yield client


def text_of(result: CallToolResult) -> str:
    """Return the text of a result that is one text block."""
    [block] = result.content
    assert block.type == "text"
    return block.text


async def retrieve(client: Client, query: str, **arguments: Any) -> dict[str, Any]:
    """Call `retrieve_tools`, and return its object."""
    return found_in(await client.call_tool("retrieve_tools", {"query": query, **arguments}))


def found_in(result: CallToolResult) -> dict[str, Any]:
    """Return the object in an answer of `retrieve_tools`, which structured content repeats if a proxy sends it."""
    assert not result.is_error, text_of(result)
    found: dict[str, Any] = json.loads(text_of(result))
    assert result.structured_content is None or json.dumps(result.structured_content) == json.dumps(found)
    return found


async def call(client: Client, name: str, **arguments: Any) -> CallToolResult:
    """Call `call_tool`."""
    return await client.call_tool("call_tool", {"name": name, "arguments": arguments})
