"""`callability serve`: answer proxies over gRPC."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Annotated, NoReturn

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
from callability.finding import shown
from callability.service.edits import Edits, followed
from callability.service.memory import return_large_blocks
from callability.service.observability.metrics import PolicyMetrics
from callability.service.requests.limits import CONCURRENT_CALLS
from callability.service.server import Server

_log = logging.getLogger(__name__)


def _calls(given: str | int) -> int:
    """Return a number of calls, 1 or more; typer hands the default on as it is."""
    number = str(given)
    if not number.isdecimal() or int(number) < 1:
        raise typer.BadParameter(f"must be a whole number of at least 1, and is {shown(number)}")
    return int(number)


def serve(
    policy: PolicyOption = None,
    address: Annotated[
        str, typer.Option(metavar="ADDRESS", help="127.0.0.1:PORT, [::1]:PORT or unix:PATH; port 0 selects a free one.")
    ] = "127.0.0.1:7420",
    max_concurrent_calls: Annotated[
        int,
        typer.Option(metavar="NUMBER", parser=_calls, help="Calls in progress at a time. More are refused at once."),
    ] = CONCURRENT_CALLS,
    metrics_address: MetricsOption = None,
    log_level: LogLevelOption = LogLevel.INFO,
) -> None:
    """Prove a policy, and answer proxies over gRPC until SIGTERM or SIGINT.

    An edit of the policy takes effect while the service runs if it is proved and passes its tests; otherwise the last
    good policy stays in effect. The address is written to standard output when calls are answered. After a signal,
    calls in flight have at most 5 seconds to finish, and new calls are refused. Exit code 0: stopped by a signal. 1:
    the policy is refused. 2: the address is refused.
    """
    log_to_standard_error(log_level)
    check_metrics_address(metrics_address)
    return_large_blocks()
    try:
        uvloop.run(_serve(loaded_to_serve(policy), policy, address, max_concurrent_calls, metrics_address))
    except AddressRefused as error:
        leave(str(error), 2)


async def _serve(
    loaded: Loaded, directory: Path | None, address: str, max_concurrent_calls: int, metrics_address: str | None
) -> None:
    """Serve until a signal comes; the shipped policy, which has no directory of its own, is not followed."""
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    registry = CollectorRegistry()
    metrics = PolicyMetrics(registry)
    metrics.decides(loaded.policy)
    server = Server(loaded.policy, address, metrics, concurrent_calls=max_concurrent_calls)
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
            await server.drain()
    _log.info("stopped")
    _end()


def _end() -> NoReturn:
    """End the process at once: taking the event loop apart would cancel the calls that come in meanwhile."""
    logging.shutdown()
    sys.stdout.flush()
    os._exit(0)
