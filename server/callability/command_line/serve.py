"""`callability serve`: answers proxies over gRPC."""

from __future__ import annotations

import asyncio
import logging
import signal
from typing import Annotated

import typer
import uvloop

from callability.address import AddressRefused
from callability.command_line.options import (
    LogLevel,
    LogLevelOption,
    PolicyOption,
    leave,
    loaded,
    log_to_standard_error,
)
from callability.policy.loading import Policy
from callability.service.server import run

_log = logging.getLogger(__name__)


def serve(
    policy: PolicyOption = None,
    address: Annotated[
        str, typer.Option(metavar="ADDRESS", help="127.0.0.1:PORT, [::1]:PORT or unix:PATH; port 0 takes a free one.")
    ] = "127.0.0.1:7420",
    log_level: LogLevelOption = LogLevel.INFO,
) -> None:
    """Prove a policy and answer proxies by it over gRPC, until SIGTERM or SIGINT.

    The address is written to standard output when calls are answered. Exit code 0: stopped by a signal. 1: the policy
    is refused. 2: the address is.
    """
    log_to_standard_error(log_level)
    served = loaded(policy)
    try:
        uvloop.run(_serve(served, address))
    except AddressRefused as error:
        leave(str(error), 2)


async def _serve(policy: Policy, address: str) -> None:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)

    def started(bound: str) -> None:
        _log.info("policy %s, proved by %s, is served on %s", policy.revision, policy.engine, bound)
        typer.echo(f"listening on {bound}")

    await run(policy, address, started, stopping)
    _log.info("stopped")
