"""The HTTP endpoint from which Prometheus scrapes metrics, and the metrics of a server's certificate."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from socketserver import ThreadingMixIn
from typing import Any
from urllib.parse import urlsplit
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, Counter, Gauge, make_wsgi_app

from callability.process.address import AddressRefused, is_loopback


class CertificateMetrics:
    """When the certificate expires, how often it was replaced, and whether its files are refused."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._expires = Gauge(
            "callability_certificate_expires_timestamp_seconds",
            "When the certificate in effect expires, in seconds since 1970; 0 without TLS.",
            registry=registry,
        )
        self._edits = Counter(
            "callability_certificate_edits",
            "Replacements of the certificate files, by whether they were applied.",
            ("applied",),
            registry=registry,
        )
        for applied in ("true", "false"):
            self._edits.labels(applied)
        self._broken = Gauge(
            "callability_certificate_broken", "1 while the certificate files are refused.", registry=registry
        )

    def record(self, expires: datetime, *, applied: bool | None = None) -> None:
        """Record when the certificate in effect expires, and after an edit of its files whether it was applied."""
        self._expires.set(expires.timestamp())
        if applied is not None:
            self._edits.labels(str(applied).lower()).inc()
            self._broken.set(not applied)


CONNECTIONS = 16
"""Connections at a time; further ones are closed at once, so that they take no descriptors from what is measured."""
IDLE_SECONDS = 2.0
"""Seconds after which a connection that sends nothing is closed."""
_PAUSE = 0.1
_logger = logging.getLogger(__name__)


@contextmanager
def expose(metrics: CollectorRegistry, address: str | None) -> Iterator[None]:
    """Serve metrics under `/metrics` of an address on loopback; without one they are not served.

    Raises:
        AddressRefused: the address cannot be listened on.
    """
    if address is None:
        yield
        return
    host, _, port = address.rpartition(":")
    try:
        server = _Server(host.removeprefix("[").removesuffix("]"), int(port), metrics)
    except OSError as error:
        reason = (error.strerror or "error").lower()
        raise AddressRefused(f"`{address}` cannot be listened on: {reason}") from error
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    _logger.info("metrics are on http://%s:%d/metrics", host, server.server_port)
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingMixIn, WSGIServer):
    """Answers each connection in a thread of its own, a limited number at a time."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, host: str, port: int, metrics: CollectorRegistry) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._free = threading.Semaphore(CONNECTIONS)
        super().__init__((host, port), _Handler)
        application = make_wsgi_app(metrics)
        self.set_app(_of_this_machine(application) if is_loopback(host) else application)

    def get_request(self) -> tuple[Any, Any]:
        """Accept a connection; without a free descriptor, wait a moment: it would be tried again at once, and again."""
        try:
            return super().get_request()
        except OSError:
            time.sleep(_PAUSE)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection, or close it if there are too many."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer a connection, and let another take its place."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report nothing: the client sent nothing, or has gone."""


def _of_this_machine(application: Any) -> Any:
    """Return an application that answers requests to this machine's own names, and to no name that a page made up.

    A browser on this machine sends the name of the page's server, which may have changed to this address.
    """

    def answer(environ: Mapping[str, Any], start: Any) -> Iterable[bytes]:
        try:
            host = urlsplit(f"//{environ.get('HTTP_HOST', '')}").hostname or ""
        except ValueError:
            host = ""
        if "HTTP_HOST" not in environ or host == "localhost" or is_loopback(host):
            answered: Iterable[bytes] = application(environ, start)
            return answered
        start("421 Misdirected Request", [("Content-Type", "text/plain; charset=utf-8")])
        return [b"This address answers requests to `localhost` or a loopback address.\n"]

    return answer


class _Handler(WSGIRequestHandler):
    timeout = IDLE_SECONDS

    def log_message(self, format: str, *args: object) -> None:
        """Report nothing: a scrape is no event."""
