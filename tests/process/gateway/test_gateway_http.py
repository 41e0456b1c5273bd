"""The gateway over HTTP, for clients that keep their connections."""

from __future__ import annotations

import select
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import httpx2

from support.gateway_in_process import http_gateway
from support.gateways import write_config


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
