"""Addresses that cannot be used, and proxies of the environment that do not lead to loopback."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from callability.gateway.upstream.http_client import HttpClient
from callability.gateway.upstream.target import HttpTarget
from support.commands import callability
from support.gateway_in_process import http_gateway
from support.gateways import retrieve, shelf, write_config
from support.running import serving, unused_port

PROXIES = ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "grpc_proxy", "all_proxy", "ALL_PROXY")
READ = {"name": "read_file", "description": "Reads a file."}


@pytest.fixture
def proxied(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment that sends everything to a proxy that does not run."""
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    for name in PROXIES:
        monkeypatch.setenv(name, f"http://127.0.0.1:{unused_port()}")
    return monkeypatch


@pytest.fixture
def upstream(tmp_path: Path) -> dict[str, Any]:
    """A server with one tool."""
    return shelf(tmp_path, "files", READ)


def _found(url: str, query: str) -> dict[str, Any]:
    """Return what an agent finds."""

    async def ask() -> dict[str, Any]:
        async with Client(url) as client:
            return await retrieve(client, query)

    return anyio.run(ask)


@pytest.mark.parametrize("address", ["127.0.0.1:0", "[::1]:0", "unix"])
def test_a_gateway_asks_its_policy_service_without_the_proxy_of_the_environment(
    address: str, proxied: pytest.MonkeyPatch, upstream: dict[str, Any], tmp_path: Path
) -> None:
    """On loopback and by a Unix socket."""
    config = write_config(tmp_path, {"files": upstream})
    with (
        serving(address=f"unix:{tmp_path}/s" if address == "unix" else address) as policy,
        http_gateway(config, "--policy-address", policy) as url,
    ):
        # The client of this test is not part of the product.
        proxied.undo()
        assert [tool["name"] for tool in _found(url, "file")["tools"]] == ["files:read_file"]


def test_a_gateway_asks_a_server_on_loopback_without_the_proxy_of_the_environment(
    proxied: pytest.MonkeyPatch, upstream: dict[str, Any], tmp_path: Path
) -> None:
    """Another gateway is its server here."""
    inner, outer = tmp_path / "inner", tmp_path / "outer"
    for directory in (inner, outer):
        directory.mkdir()
    with http_gateway(write_config(inner, {"files": upstream})) as behind:
        config = write_config(outer, {"behind": {"type": "http", "url": behind}})
        with http_gateway(config) as url:
            proxied.undo()
            names = {tool["name"] for tool in _found(url, "call_tool")["tools"]}
            assert "behind:call_tool" in names, (outer / "gateway.log").read_text()


@pytest.mark.parametrize(
    ("url", "direct"),
    [
        ("http://127.0.0.1:1/mcp", True),
        ("http://127.8.9.10:1/mcp", True),
        ("http://[::1]:1/mcp", True),
        ("http://localhost/mcp", True),
        ("https://localhost/mcp", True),
        ("https://example.org/mcp", False),
        ("http://localhost.example.org/mcp", False),
    ],
)
def test_only_loopback_is_reached_without_the_proxy(url: str, direct: bool, proxied: pytest.MonkeyPatch) -> None:
    """Servers elsewhere may only be within reach of the proxy."""
    client = HttpClient("s", HttpTarget(url))
    assert (client._transport_for_url(client.build_request("GET", url).url) is client._transport) == direct


@pytest.fixture
def taken() -> Iterator[str]:
    """An address on which somebody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def test_a_port_in_use_is_named_in_one_line_by_every_command(taken: str, tmp_path: Path) -> None:
    """And gRPC writes no lines of its own."""
    said = f"`{taken}` cannot be listened on: address already in use\n"
    config = str(write_config(tmp_path, {}))
    for command in (("serve",), ("studio",), ("gateway", "--transport", "http", "--config", config)):
        done = callability(*command, "--address", taken)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
        assert done.stderr == f"callability: {said}"


def test_a_port_that_is_in_use_on_one_address_of_localhost_is_in_use(taken: str) -> None:
    """A service that answers on the other alone would be found by some of its callers."""
    done = callability("serve", "--address", taken.replace("127.0.0.1", "localhost"))
    assert (done.returncode, "address already in use" in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize("length", [107, 108])
def test_the_path_of_a_socket_has_at_most_107_bytes(length: int, tmp_path: Path) -> None:
    """Beyond that the message says how many it has, in one line."""
    directory = tmp_path.parent
    path = f"{directory}/{'s' * (length - len(str(directory)) - 1)}"
    if length == 107:
        with serving(address=f"unix:{path}") as address:
            assert address == f"unix:{path}"
        return
    config = str(write_config(tmp_path, {}))
    for command in (("serve", "--address"), ("gateway", "--config", config, "--policy-address")):
        done = callability(*command, f"unix:{path}")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == f"callability: the path of a socket has at most 107 bytes, and `{path}` has 108\n"


def test_a_socket_whose_directory_does_not_exist_is_refused_with_the_reason(tmp_path: Path) -> None:
    """In one line."""
    done = callability("serve", "--address", f"unix:{tmp_path}/nowhere/s")
    assert done.stderr == f"callability: `{tmp_path}/nowhere/s` cannot be listened on: no such directory\n"


def test_a_free_port_is_printed_with_its_number() -> None:
    """`:0` requests a free port, and cannot be connected to."""
    with serving(address="127.0.0.1:0") as address:
        assert int(address.rpartition(":")[2]) > 0


def test_a_policy_service_cannot_have_port_0(tmp_path: Path) -> None:
    """The gateway would wait for ever."""
    done = callability("gateway", "--config", str(write_config(tmp_path, {})), "--policy-address", "127.0.0.1:0")
    assert (done.returncode, "port 0 only lets a server choose a free port" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    "command", [("gateway", "--policy-address"), ("gateway", "--check", "--policy-address"), ("serve", "--address")]
)
def test_an_address_of_a_socket_without_a_path_is_refused(command: tuple[str, ...], tmp_path: Path) -> None:
    """`gateway` would wait for a service at an address that cannot exist."""
    config = ("--config", str(write_config(tmp_path, {}))) if command[0] == "gateway" else ()
    done = callability(command[0], *config, *command[1:], "unix:")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "callability: `unix:` names no socket: wanted is unix:PATH\n"


@pytest.mark.parametrize("check", [(), ("--check",)], ids=["start", "check"])
@pytest.mark.parametrize(
    ("address", "words"), [("0.0.0.0:0", "is not loopback"), ("127.0.0.1:port", "is not an address")]
)
def test_an_address_for_agents_is_checked_before_anything_else(
    address: str, words: str, check: tuple[str, ...], tmp_path: Path
) -> None:
    """The check finds what a start finds."""
    config = str(write_config(tmp_path, {}))
    done = callability("gateway", "--config", config, *check, "--transport", "http", "--address", address)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"`{address}` {words}" in done.stderr


def test_the_log_counts_one_tool_as_one(upstream: dict[str, Any], tmp_path: Path) -> None:
    """And two servers have two."""
    servers = {"one": upstream, "two": shelf(tmp_path, "two", READ, {**READ, "name": "read_all"})}
    with http_gateway(write_config(tmp_path, servers)) as url:
        assert json.dumps(_found(url, "file")).count("read_file") >= 2
    log = (tmp_path / "gateway.log").read_text()
    assert "`one` is connected with 1 tool\n" in log
    assert "`two` is connected with 2 tools\n" in log
