"""The gateway over HTTP, for clients that keep their connections."""

from __future__ import annotations

import select
import socket
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import httpx2

from support.gateway_in_process import http_gateway
from support.gateways import http_gateway_process, write_config
from support.waiting import SECONDS


def test_a_connection_is_kept_for_longer_than_clients_keep_theirs(tmp_path: Path) -> None:
    """A request on a connection that ends at that moment is lost, and an MCP client then loses its whole connection."""
    clients_keep = httpx2.Limits().keepalive_expiry
    assert clients_keep is not None
    with http_gateway(write_config(tmp_path, {})) as url:
        connection = HTTPConnection(urlsplit(url).netloc, timeout=120)
        try:
            connection.request("GET", "/nothing")
            assert connection.getresponse().read()
            kept = connection.sock
            assert kept is not None
            ended, _, _ = select.select([kept], [], [], clients_keep + 1)
            assert not ended
            connection.request("GET", "/nothing")
            assert connection.getresponse().read()
            assert connection.sock is kept
        finally:
            connection.close()


def test_what_is_no_request_fills_no_log(tmp_path: Path) -> None:
    """Anybody can connect, and the library has a line for each bad request."""
    with http_gateway_process(write_config(tmp_path, {})) as url:
        parts = urlsplit(url)
        for _ in range(40):
            with socket.create_connection((parts.hostname, parts.port), timeout=SECONDS) as client:
                client.sendall(b"nonsense\r\n\r\n")
                while client.recv(4_096):
                    pass
    log = (tmp_path / "gateway.log").read_text()
    assert 0 < log.count("Invalid HTTP request received") <= 10
