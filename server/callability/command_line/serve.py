"""`callability serve`: answer proxies over gRPC."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import sys
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
import uvloop
from prometheus_client import CollectorRegistry, ProcessCollector

from callability.address import AddressRefused
from callability.certificate_metrics import CertificateMetrics
from callability.command_line.options import (
    Loaded,
    LogLevel,
    LogLevelOption,
    MetricsOption,
    PolicyOption,
    check_metrics_address,
    leave,
    loaded_to_serve,
    log_to_standard_error,
)
from callability.command_line.tls import (
    InsecureListenOption,
    TlsCertificateOption,
    TlsClientCaOption,
    TlsKeyOption,
    certificates_of,
    in_background,
)
from callability.exposition import exposed
from callability.finding import line, shown
from callability.service.callers.callers_file import CallersRefused
from callability.service.callers.watched_callers import WatchedCallers
from callability.service.edits import Edits, followed
from callability.service.memory import return_large_blocks
from callability.service.observability.call_metrics import CallMetrics
from callability.service.observability.caller_metrics import CallerMetrics
from callability.service.observability.metrics import PolicyMetrics
from callability.service.requests.limits import CONCURRENT_CALLS
from callability.service.server import Server
from callability.service.transport.port import Port

_log = logging.getLogger(__name__)


def _calls(given: str | int) -> int:
    """Return a number of calls, 1 or more; typer hands the default on as it is."""
    number = str(given)
    if not number.isdecimal() or int(number) < 1:
        raise typer.BadParameter(f"must be a whole number of at least 1, and is {shown(number)}")
    return int(number)


def _mode(given: str | int) -> int:
    """Return the mode of a file, which is given as octal digits."""
    if isinstance(given, int):
        return given
    if not re.fullmatch("0?[0-7]{3}", given):
        raise typer.BadParameter(f"must be three octal digits such as 660, and is {shown(given)}")
    return int(given, 8)


def serve(
    policy: PolicyOption = None,
    address: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="HOST:PORT or unix:PATH; port 0 selects a free one. Beyond loopback, it needs TLS and callers.",
        ),
    ] = "127.0.0.1:7420",
    callers: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Answer only callers of this file, each what it may call. Default: anybody."),
    ] = None,
    tls_certificate: TlsCertificateOption = None,
    tls_key: TlsKeyOption = None,
    tls_client_ca: TlsClientCaOption = None,
    insecure_listen: InsecureListenOption = False,
    socket_mode: Annotated[
        int | None,
        typer.Option(metavar="MODE", parser=_mode, help="The mode of a Unix socket, such as 660. Default: by umask."),
    ] = None,
    max_concurrent_calls: Annotated[
        int,
        typer.Option(metavar="NUMBER", parser=_calls, help="Calls in progress at a time. More are refused at once."),
    ] = CONCURRENT_CALLS,
    metrics_address: MetricsOption = None,
    log_level: LogLevelOption = LogLevel.INFO,
) -> None:
    """Prove a policy, and answer proxies over gRPC until SIGTERM or SIGINT.

    An edit of the policy takes effect while the service runs if it is proved and passes its tests; otherwise the last
    good policy stays in effect. The same holds for the certificates and the callers. The address is written to standard
    output when calls are answered. After a signal, calls in flight have at most 5 seconds to finish, and new calls are
    refused. Exit code 0: stopped by a signal. 1: the policy, the callers or a certificate is refused. 2: the address
    is refused.
    """
    log_to_standard_error(log_level)
    check_metrics_address(metrics_address)
    return_large_blocks()
    certificates = certificates_of(tls_certificate, tls_key, tls_client_ca)
    known = _callers(callers)
    port = Port(address, certificates, known is not None, insecure_listen, socket_mode)
    try:
        port.check()
        serving = Serving(loaded_to_serve(policy), policy, port, known, max_concurrent_calls, metrics_address)
        uvloop.run(serving.run())
    except AddressRefused as error:
        leave(str(error), 2)


def _callers(path: Path | None) -> WatchedCallers | None:
    if path is None:
        return None
    try:
        return WatchedCallers(path)
    except CallersRefused as refused:
        for finding in refused.findings:
            typer.echo(line(finding), err=True)
        leave("the callers are refused", 1)


@dataclass(frozen=True, slots=True)
class Serving:
    """What is served, and where; the shipped policy, which has no directory of its own, is not followed."""

    loaded: Loaded
    directory: Path | None
    port: Port
    callers: WatchedCallers | None
    max_concurrent_calls: int
    metrics_address: str | None

    async def run(self) -> None:
        """Serve until a signal comes."""
        stopping = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stopping.set)
        registry = CollectorRegistry()
        metrics = PolicyMetrics(registry)
        policy = self.loaded.policy
        metrics.decides(policy)
        calls = CallMetrics(registry)
        about_callers, about_certificates = CallerMetrics(registry), CertificateMetrics(registry)
        ProcessCollector(registry=registry)
        if self.callers is not None:
            about_callers.follow(self.callers)
        if self.port.certificates is not None:
            about_certificates.follow(self.port.certificates)
        server = Server(policy, self.port, metrics, self.max_concurrent_calls, self.callers, calls, self.loaded.bundle)
        edits = Edits(server.served, self.directory, self.loaded.digest, metrics) if self.directory else None
        with exposed(registry, self.metrics_address):
            await server.start()
            try:
                _log.info("policy %s, proved by %s, is served on %s", policy.revision, policy.engine, server.address)
                typer.echo(f"listening on {server.address}")
                async with followed(edits), in_background(*self._followers()):
                    await stopping.wait()
            finally:
                await server.drain()
        _log.info("stopped")
        _end()

    def _followers(self) -> Iterator[Coroutine[Any, Any, None]]:
        if self.port.certificates is not None:
            yield self.port.certificates.follow()
        if self.callers is not None:
            yield self.callers.follow()


def _end() -> NoReturn:
    """End the process at once: taking the event loop apart would cancel the calls that come in meanwhile."""
    logging.shutdown()
    sys.stdout.flush()
    os._exit(0)
