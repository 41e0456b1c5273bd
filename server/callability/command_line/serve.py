"""`callability serve`: answer proxies over gRPC."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
import uvloop
from prometheus_client import CollectorRegistry, ProcessCollector

from callability.address import AddressRefused, check_listen
from callability.certificate_metrics import CertificateMetrics
from callability.command_line.options import (
    METRICS_WHY,
    Loaded,
    LogLevel,
    MetricsOption,
    PolicyOption,
    leave,
    loaded_to_serve,
    log_to_standard_error,
)
from callability.command_line.service_settings import SETTINGS, Value, settings_or_exit, unused_variables
from callability.command_line.tls import (
    INSECURE_LISTEN,
    INSECURE_METRICS,
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


def _read(name: str) -> Callable[[str | int], Value]:
    """Return what reads the option of a setting."""

    def read(given: str | int) -> Value:
        try:
            return SETTINGS[name].read(str(given))
        except ValueError as error:
            raise typer.BadParameter(f"must be {error}, and is {shown(str(given))}") from None

    return read


def serve(
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", metavar="FILE", help="The file with settings. Default: $CALLABILITY_SERVE_CONFIG, or none."
        ),
    ] = None,
    policy: PolicyOption = None,
    address: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="HOST:PORT or unix:PATH; port 0 selects a free one. Beyond loopback, it needs TLS and callers."
            " Default: 127.0.0.1:7420.",
        ),
    ] = None,
    callers: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Answer only callers of this file, each what it may call. Default: anybody."),
    ] = None,
    tls_certificate: TlsCertificateOption = None,
    tls_key: TlsKeyOption = None,
    tls_client_ca: TlsClientCaOption = None,
    insecure_listen: Annotated[bool | None, typer.Option(help=INSECURE_LISTEN)] = None,
    socket_mode: Annotated[
        int | None,
        typer.Option(
            metavar="MODE",
            parser=_read("socket_mode"),
            help="The mode of a Unix socket, such as 660. Default: by umask.",
        ),
    ] = None,
    max_concurrent_calls: Annotated[
        int | None,
        typer.Option(
            metavar="NUMBER",
            parser=_read("max_concurrent_calls"),
            help=f"Calls in progress at a time. More are refused at once. Default: {CONCURRENT_CALLS:,}.",
        ),
    ] = None,
    metrics_address: MetricsOption = None,
    insecure_metrics: Annotated[bool | None, typer.Option(help=INSECURE_METRICS)] = None,
    log_level: Annotated[
        LogLevel | None, typer.Option("--log-level", help="The lowest level that is logged. Default: info.")
    ] = None,
) -> None:
    """Prove a policy, and answer proxies over gRPC until SIGTERM or SIGINT.

    An edit of the policy takes effect while the service runs if it is proved and passes its tests; otherwise the last
    good policy stays in effect. The same holds for the certificates and the callers. The address is written to standard
    output when calls are answered. Each option is also a setting: `--tls-key` is `$CALLABILITY_SERVE_TLS_KEY` in the
    environment, and `tls_key` in the file. An option counts before a variable, and a variable before the file. After a
    signal, calls in flight have at most 5 seconds to finish, and new calls are refused. Exit code 0: stopped by a
    signal. 1: the policy, the callers, a certificate or the file with settings is refused. 2: the address or a variable
    is refused.
    """
    given = {name: value for name, value in locals().items() if name in SETTINGS}
    settings = {name: each.value for name, each in settings_or_exit(given, config).items()}
    log_to_standard_error(LogLevel(str(settings["log_level"])))
    for name in unused_variables(os.environ):
        _log.warning("`$%s` is not a setting, and is not used", name)
    return_large_blocks()
    try:
        uvloop.run(_serving(settings).run())
    except AddressRefused as error:
        leave(str(error), 2)


def _serving(settings: Mapping[str, Any]) -> Serving:
    """Return what settings describe.

    Raises:
        AddressRefused: an address may not or cannot be listened on.
    """
    if (metrics := settings["metrics_address"]) is not None:
        check_listen(metrics, METRICS_WHY, any_host=settings["insecure_metrics"])
    certificates = certificates_of(*(settings[name] for name in ("tls_certificate", "tls_key", "tls_client_ca")))
    callers = _callers(settings["callers"])
    known = callers is not None
    port = Port(settings["address"], certificates, known, settings["insecure_listen"], settings["socket_mode"])
    port.check()
    policy = settings["policy"]
    return Serving(loaded_to_serve(policy), policy, port, callers, settings["max_concurrent_calls"], metrics)


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
