"""The start of the gateway: errors are reported before any server is run, and the log has the requested level."""

from __future__ import annotations

import asyncio
import re
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from mcp import Client

from support.commands import callability
from support.gateway_in_process import http_gateway
from support.gateways import http_gateway_process, retrieve, shelf, write_config

TOOL = {"name": "look_up", "description": "Looks something up."}


@contextmanager
def _taken() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        yield f"127.0.0.1:{taken.getsockname()[1]}"


@pytest.mark.parametrize(
    ("transport", "option"), [("http", "--address"), ("http", "--metrics-address"), ("stdio", "--metrics-address")]
)
@pytest.mark.parametrize("wrong", ["taken", "not loopback", "no address"])
def test_an_address_that_cannot_be_had_is_refused_before_any_server_is_run(
    transport: str, option: str, wrong: str, tmp_path: Path
) -> None:
    """A server may have side effects at its start."""
    started = tmp_path / "started"
    config = write_config(tmp_path, {"marks": {"command": "touch", "args": [str(started)]}})
    free = "127.0.0.1:0"
    others = ["--metrics-address", free] if option == "--address" else ["--address", free] * (transport == "http")
    with _taken() as taken:
        address = {"taken": taken, "not loopback": "0.0.0.0:0", "no address": "127.0.0.1:port"}[wrong]
        command = ["gateway", "--config", str(config), "--transport", transport, *others, option, address]
        done = callability(*command, stdin=subprocess.DEVNULL)
    words = {"taken": "cannot be listened on", "not loopback": "is not loopback", "no address": "is not an address"}
    assert (done.returncode, words[wrong] in done.stderr) == (2, True), done.stderr
    assert "`marks`" not in done.stderr
    assert not started.exists()


@pytest.mark.parametrize("check", [(), ("--check",)])
@pytest.mark.parametrize("transport", [(), ("--transport", "stdio")])
def test_an_address_without_http_is_a_usage_error(
    transport: tuple[str, ...], check: tuple[str, ...], tmp_path: Path
) -> None:
    """Otherwise a gateway that waits on standard input looks like one that listens."""
    config = write_config(tmp_path, {})
    command = ["gateway", "--config", str(config), *transport, *check, "--address", "127.0.0.1:0"]
    done = callability(*command, stdin=subprocess.DEVNULL)
    words = "`--address` goes with `--transport http`: over stdio, the gateway listens on no address"
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.splitlines()[-1].endswith(words)


def test_the_warning_that_no_agent_has_a_token_names_the_port(tmp_path: Path) -> None:
    """Also if port 0 selected it."""
    with http_gateway(write_config(tmp_path, {})) as url:
        address = url.removeprefix("http://").removesuffix("/mcp")
    assert f"every client that reaches {address} can call" in (tmp_path / "gateway.log").read_text()


@pytest.fixture(scope="module", params=[("info", None), ("debug", "approvals.yaml")], ids=lambda it: it[0])
def started(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, str | None, Path, str]:
    """A level, an approvals file or none, the config of a gateway that a client has called, and its log."""
    level, approvals = request.param
    directory = tmp_path_factory.mktemp("started")
    keys = {"approvals": approvals} if approvals else {}
    config = write_config(directory, {"it": shelf(directory, "it", TOOL)}, **keys)
    (directory / "approvals.yaml").write_text("{}")

    async def story() -> None:
        async with Client(url) as client:
            await retrieve(client, "look")

    with http_gateway_process(config, "--log-level", level) as url:
        asyncio.run(story())
    return level, approvals, config, (directory / "gateway.log").read_text()


def test_the_log_of_a_start_names_the_files_and_the_policy(started: tuple[str, str | None, Path, str]) -> None:
    """So that a log can be compared with what was meant."""
    _, approvals, config, log = started
    files = f"approvals `{config.parent / approvals}`" if approvals else "no approvals file"
    assert re.search(re.escape(f"started with config `{config}`, {files}, policy revision `") + "[0-9a-f]+`", log), log


def test_requests_are_logged_at_the_level_of_debugging_only(started: tuple[str, str | None, Path, str]) -> None:
    """Each call is several."""
    level, _, _, log = started
    assert ("uvicorn.access" in log) is (level == "debug")
    assert "`it` is connected" in log


@pytest.mark.parametrize(("content", "broken"), [("{}", 0), ("[", 1), (None, 1)])
def test_an_approvals_file_that_cannot_be_read_at_the_start_is_counted_as_broken(
    content: str | None, broken: int, tmp_path: Path
) -> None:
    """From the first reading on."""
    if content is not None:
        (tmp_path / "approvals.yaml").write_text(content)
    config = write_config(tmp_path, {}, approvals="approvals.yaml")
    with http_gateway(config, "--metrics-address", "127.0.0.1:0"):
        [url] = {word for word in (tmp_path / "gateway.log").read_text().split() if word.endswith("/metrics")}
        with urllib.request.urlopen(url, timeout=120) as answer:
            metrics = answer.read().decode()
    assert f'callability_file_broken{{file="approvals"}} {broken}.0' in metrics
    assert 'callability_file_broken{file="config"} 0.0' in metrics
