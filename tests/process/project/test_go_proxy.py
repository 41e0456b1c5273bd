"""The example of a proxy in Go passes the gateway's cases, over stdio and HTTP, in front of real servers."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from support.any_proxy import (
    APPROVALS,
    CASES,
    WITHOUT_LOCKS,
    WORLD,
    Server,
    locked_tools_change_no_byte,
    many_answers,
)
from support.bundles import SHIPPED, bundle_of
from support.checkout import ROOT
from support.gateways import client_with, shelf
from support.go_client import OUT_OF_REACH

SOURCE = ROOT / "clients/go/mcpgo/examples/proxy"
TOKEN = "a token of the test"
TRANSPORTS = pytest.mark.parametrize("transport", ["stdio", "http"])
needs_go = pytest.mark.skipif(shutil.which("go") is None, reason="the Go toolchain is not on this machine")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The proxy, built."""
    path = tmp_path_factory.mktemp("program") / "proxy"
    done = subprocess.run(
        ["go", "build", "-o", path, "."], cwd=SOURCE, capture_output=True, text=True, timeout=1200, check=False
    )
    if done.returncode and any(phrase in done.stderr for phrase in OUT_OF_REACH):
        pytest.skip("the Go SDK of MCP is neither on this machine nor within its reach")
    assert done.returncode == 0, done.stderr
    return path


def _config(directory: Path, world: Mapping[str, Server]) -> Path:
    """Write the config of a proxy for the servers of a world."""
    directory.mkdir(exist_ok=True)
    (directory / "policy.bundle").write_bytes(bundle_of(SHIPPED))
    servers: dict[str, Any] = {}
    for name, server in world.items():
        keys = {key: value for key, value in server.items() if key != "tools"}
        servers[name] = shelf(directory, name, *server["tools"], **keys)
    if world is WORLD:
        servers["files"]["approvals"] = APPROVALS
    path = directory / "proxy.json"
    agents = {TOKEN: {"name": "assistant", "servers": ["*"]}}
    path.write_text(json.dumps({"policy": str(directory / "policy.bundle"), "servers": servers, "agents": agents}))
    return path


@contextmanager
def _http_proxy(program: Path, config: Path) -> Iterator[str]:
    """Run the proxy over HTTP, and yield its URL."""
    command = [str(program), "-config", str(config), "-http", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            assert line.startswith("listening on "), line
            yield f"http://{line.removeprefix('listening on ').strip()}"
        finally:
            process.terminate()
            process.communicate(timeout=120)


@asynccontextmanager
async def _connected(transport: str, program: Path, config: Path) -> AsyncIterator[Client]:
    """Yield a client of a proxy over one of the transports."""
    if transport == "http":
        with _http_proxy(program, config) as url:
            async with client_with(url, TOKEN) as client:
                yield client
        return
    parameters = StdioServerParameters(command=str(program), args=["-config", str(config)])
    async with Client(stdio_client(parameters, errlog=sys.stderr)) as client:
        yield client


@needs_go
@TRANSPORTS
def test_what_holds_for_any_proxy_holds_for_the_proxy_in_go(transport: str, program: Path, tmp_path: Path) -> None:
    """Every case of `support.any_proxy`, which the gateway passes too."""

    async def story() -> None:
        async with _connected(transport, program, _config(tmp_path, WORLD)) as client:
            for case in CASES:
                await case(client)

    asyncio.run(story())


@needs_go
@TRANSPORTS
def test_without_the_flag_every_byte_is_as_if_locked_tools_did_not_exist(
    transport: str, program: Path, tmp_path: Path
) -> None:
    """Over more than 100 queries and limits, as the gateway keeps it."""

    async def answers(config: Path) -> list[tuple[str, dict[str, Any]]]:
        async with _connected(transport, program, config) as client:
            return await many_answers(client)

    without = asyncio.run(answers(_config(tmp_path / "without", WITHOUT_LOCKS)))
    locked_tools_change_no_byte(asyncio.run(answers(_config(tmp_path / "locked", WORLD))), without)


@pytest.mark.parametrize("module", ["mcpgo", "mark3labs"])
def test_at_most_120_lines_of_an_example_know_callability(module: str) -> None:
    """Those of the files that import one of its packages."""
    sources = (ROOT / "clients/go" / module / "examples/proxy").glob("*.go")
    files = [path.read_text(encoding="utf-8") for path in sources if not path.name.endswith("_test.go")]
    knowing = [text for text in files if re.search(r'^\t"[^"]*/clients/go(/\w+)*"$', text, re.MULTILINE)]
    assert 1 <= len(knowing) < len(files)
    assert sum(len(text.splitlines()) for text in knowing) <= 120
