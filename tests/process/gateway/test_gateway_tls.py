"""The gateway over TLS, towards agents and towards its policy service."""

from __future__ import annotations

import asyncio
import socket
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import anyio
import pytest

from callability.gateway.serving.http_connections import HttpConnection
from callability.process.web_server import StopSignals, UvicornServer
from support.callers import token_entry, write_callers
from support.certificates import Authority, Pair
from support.commands import callability
from support.gateways import agents_of, client_with, http_gateway_process, retrieve, shelf, token_of, write_config
from support.running import serving
from support.waiting import SECONDS, eventually

READ = {"name": "read_file", "description": "Reads a file."}


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """The authority that agents and the gateway know."""
    return Authority(tmp_path, "known")


def _tls(pair: Pair, *more: str) -> tuple[str, ...]:
    return ("--tls-certificate", str(pair.certificate), "--tls-key", str(pair.key), *more)


def _trusting(authority: Authority, client: Pair | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority.path))
    if client is not None:
        context.load_cert_chain(client.certificate, client.key)
    return context


def _found(url: str, context: ssl.SSLContext | None, token: str | None = None) -> list[str]:
    """Return the tools that an agent finds."""

    async def ask() -> list[str]:
        async with client_with(url, token, context) as client:
            return [tool["name"] for tool in (await retrieve(client, "file"))["tools"]]

    return anyio.run(ask)


def _status(url: str, context: ssl.SSLContext, **headers: str) -> int:
    """Return the HTTP status of a message, 0 if there is no connection."""
    ping = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}'
    request = urllib.request.Request(url, ping, {"Content-Type": "application/json", **headers})
    try:
        with urllib.request.urlopen(request, timeout=120, context=context) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except (urllib.error.URLError, OSError):
        return 0


def test_a_gateway_beyond_loopback_answers_agents_with_a_token_over_tls(authority: Authority, tmp_path: Path) -> None:
    """By the names that are allowed; on a wildcard address, that is no name but those of this machine."""
    config = write_config(tmp_path, {"files": shelf(tmp_path, "files", READ)}, agents=agents_of({"clerk": ["files"]}))
    tls = _tls(authority.pair("server"), "--allowed-host", "tools.example")
    with http_gateway_process(config, *tls, address="0.0.0.0:0") as url:
        assert url.startswith("https://0.0.0.0:")
        local = url.replace("0.0.0.0", "127.0.0.1")
        trusting = _trusting(authority)
        assert _found(local, trusting, token_of("clerk")) == ["files:read_file"]
        assert _status(local, trusting) == 401
        authorized = {"Authorization": f"Bearer {token_of('clerk')}"}
        assert _status(local, trusting, Host="tools.example", **authorized) not in {0, 401, 421}
        assert _status(local, trusting, Host="evil.example", **authorized) == 421
        assert _status(local.replace("https", "http"), trusting) == 0


def test_a_gateway_without_tls_or_without_tokens_stays_on_loopback(authority: Authority, tmp_path: Path) -> None:
    """Or says by an option that anybody may ask."""
    files = {"files": shelf(tmp_path, "files", READ)}
    (tmp_path / "open").mkdir()
    with_tokens = write_config(tmp_path, files, agents=agents_of({"clerk": ["files"]}))
    without = write_config(tmp_path / "open", files)
    tls = _tls(authority.pair("server"))
    clients = "tokens to the agents of the config or `--tls-client-ca`"
    for config, more, missing in ((with_tokens, (), "`--tls-certificate` and `--tls-key`"), (without, tls, clients)):
        command = ("gateway", "--transport", "http", "--address", "0.0.0.0:0", "--config", str(config), *more)
        done = callability(*command)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"is not loopback, and is refused: give {missing}, or `--insecure-listen`" in done.stderr
    with http_gateway_process(without, "--insecure-listen", address="0.0.0.0:0") as url:
        assert _found(url.replace("0.0.0.0", "127.0.0.1"), None) == ["files:read_file"]


def test_a_gateway_with_client_certificates_answers_their_owners_alone(authority: Authority, tmp_path: Path) -> None:
    """There is no connection for others, and others are answered meanwhile."""
    config = write_config(tmp_path, {"files": shelf(tmp_path, "files", READ)})
    stranger = Authority(tmp_path, "stranger")
    tls = _tls(authority.pair("server"), "--tls-client-ca", str(authority.path))
    with http_gateway_process(config, *tls) as url:
        host, port = url.removeprefix("https://").removesuffix("/mcp").split(":")
        with socket.create_connection((host, int(port))) as half_open:
            half_open.sendall(b"\x16\x03\x01\x02\x00\x01")
            for client in (None, stranger.pair("theirs"), authority.pair("expired", days=-1)):
                assert _status(url, _trusting(authority, client)) == 0
            assert _found(url, _trusting(authority, authority.pair("client"))) == ["files:read_file"]


def test_a_replaced_certificate_is_used_by_new_connections(authority: Authority, tmp_path: Path) -> None:
    """And so are replaced authorities of clients."""
    config = write_config(tmp_path, {"files": shelf(tmp_path, "files", READ)})
    other, pair, client_ca = Authority(tmp_path, "other"), authority.pair("server"), tmp_path / "clients.pem"
    client_ca.write_bytes(authority.path.read_bytes())
    old, new = authority.pair("old-client"), other.pair("new-client")
    with http_gateway_process(config, *_tls(pair, "--tls-client-ca", str(client_ca))) as url:
        assert _found(url, _trusting(authority, old)) == ["files:read_file"]
        pair.replace_by(other.pair("next"))
        eventually(lambda: _status(url, _trusting(other, old)) > 0)
        client_ca.write_bytes(other.path.read_bytes())
        eventually(lambda: _status(url, _trusting(other, new)) > 0)
        assert _status(url, _trusting(other, old)) == 0
        assert _found(url, _trusting(other, new)) == ["files:read_file"]


@pytest.mark.parametrize("kind", ["token", "certificate", "token without tls"])
def test_a_gateway_asks_a_service_that_knows_it(kind: str, authority: Authority, tmp_path: Path) -> None:
    """By a token, which is read again when it is replaced, or by its certificate."""
    token = tmp_path / "token"
    token.write_text("first\n")
    gateway: dict[str, Any] = {"may": ["check", "policy"]}
    served, credentials = [*_tls(authority.pair("server"))], ["--policy-ca", str(authority.path)]
    if kind == "certificate":
        client = authority.pair("client", "gateway.example")
        gateway["certificates"] = ["gateway.example"]
        served += ["--tls-client-ca", str(authority.path)]
        credentials += ["--policy-certificate", str(client.certificate), "--policy-key", str(client.key)]
    else:
        gateway["tokens"] = [token_entry("first"), token_entry("second")]
        credentials += ["--policy-token-file", str(token)]
    if kind == "token without tls":
        served, credentials = [], credentials[2:]
    callers = write_callers(tmp_path, gateway=gateway)
    config = write_config(tmp_path, {"files": shelf(tmp_path, "files", READ)})
    log = tmp_path / "service.log"
    with serving(*served, "--callers", str(callers), log=log) as address:
        options = ("--policy-address", address, *credentials)
        done = callability("config", "check", "--config", str(config), *options)
        assert (done.returncode, "gave no answer" in done.stdout + done.stderr) == (0, False), done.stdout
        with http_gateway_process(config, *options) as url:
            assert _found(url, None) == ["files:read_file"]
            if "token" in kind:
                token.write_text("second\n")
                write_callers(tmp_path, gateway=gateway | {"tokens": [token_entry("second")]})
                eventually(lambda: "the edit of the callers is applied" in log.read_text())
                assert _found(url, None) == ["files:read_file"]


def test_a_service_elsewhere_needs_tls(tmp_path: Path) -> None:
    """Nothing is sent to it otherwise."""
    config = write_config(tmp_path, {})
    done = callability("gateway", "--config", str(config), "--policy-address", "policy.example:7420")
    assert (done.returncode, "give `--policy-ca`" in done.stderr) == (2, True)


def test_idle_clients_of_tls_do_not_delay_the_end(authority: Authority) -> None:
    """Neither one that has sent nothing nor one that was answered confirms the end of its connection."""
    context = authority.server()
    request = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    def connect(port: int) -> list[socket.socket]:
        silent, served = (
            _trusting(authority).wrap_socket(each, server_hostname="127.0.0.1")
            for each in [socket.create_connection(("127.0.0.1", port), timeout=SECONDS) for _ in range(2)]
        )
        served.sendall(request)
        assert served.recv(1)
        return [silent, served]

    async def story() -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        signals = StopSignals()
        server = UvicornServer(
            answer,
            http=HttpConnection,
            lifespan="off",
            timeout_keep_alive=3_600,
            ssl_context_factory=lambda *_: context,
        )
        serving = asyncio.create_task(server.serve_until(listener, signals, 3_600))
        clients = await asyncio.to_thread(connect, listener.getsockname()[1])
        signals.requested.set()
        async with asyncio.timeout(SECONDS):
            await serving
        for client in clients:
            client.close()

    asyncio.run(story())
