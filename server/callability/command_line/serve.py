"""`callability serve`: answers proxies over gRPC."""

from __future__ import annotations

import asyncio
import logging
import signal
from pathlib import Path
from typing import Annotated

import typer
import uvloop
from prometheus_client import CollectorRegistry

from callability.address import AddressRefused
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
from callability.exposition import exposed
from callability.service.edits import Edits, followed
from callability.service.metrics import PolicyMetrics
from callability.service.server import Server

_log = logging.getLogger(__name__)


def serve(
    policy: PolicyOption = None,
    address: Annotated[
        str, typer.Option(metavar="ADDRESS", help="127.0.0.1:PORT, [::1]:PORT or unix:PATH; port 0 takes a free one.")
    ] = "127.0.0.1:7420",
    metrics_address: MetricsOption = None,
    log_level: LogLevelOption = LogLevel.INFO,
) -> None:
    """Prove a policy and answer proxies by it over gRPC, until SIGTERM or SIGINT.

    An edit of the policy takes effect while it runs, whole or not at all: when it is proved and passes its tests. The
    address is written to standard output when calls are answered. Exit code 0: stopped by a signal. 1: the policy
    is refused. 2: the address is.
    """
    log_to_standard_error(log_level)
    check_metrics_address(metrics_address)
    try:
        uvloop.run(_serve(loaded_to_serve(policy), policy, address, metrics_address))
    except AddressRefused as error:
        leave(str(error), 2)


async def _serve(loaded: Loaded, directory: Path | None, address: str, metrics_address: str | None) -> None:
    """Serve until a signal comes; the shipped policy, which has no directory of its own, is not followed."""
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    registry = CollectorRegistry()
    metrics = PolicyMetrics(registry)
    metrics.decides(loaded.policy)
    server = Server(loaded.policy, address, metrics)
    edits = Edits(server.served, directory, loaded.digest, metrics) if directory else None
    with exposed(registry, metrics_address):
        await server.start()
        try:
            policy = loaded.policy
            _log.info("policy %s, proved by %s, is served on %s", policy.revision, policy.engine, server.address)
            typer.echo(f"listening on {server.address}")
            async with followed(edits):
                await stopping.wait()
        finally:
            await server.stop()
    _log.info("stopped")
