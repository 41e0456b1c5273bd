"""The HTTP endpoint from which Prometheus scrapes metrics."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, start_http_server

from callability.address import AddressRefused

_logger = logging.getLogger(__name__)


@contextmanager
def exposed(metrics: CollectorRegistry, address: str | None) -> Iterator[None]:
    """Serve metrics under `/metrics` of an address on loopback; without one they are not served.

    Raises:
        AddressRefused: the address cannot be listened on.
    """
    if address is None:
        yield
        return
    host, _, port = address.rpartition(":")
    try:
        server, thread = start_http_server(int(port), host.removeprefix("[").removesuffix("]"), metrics)
    except OSError as error:
        reason = (error.strerror or "error").lower()
        raise AddressRefused(f"`{address}` cannot be listened on: {reason}") from error
    _logger.info("metrics are on http://%s:%d/metrics", host, server.server_port)
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
