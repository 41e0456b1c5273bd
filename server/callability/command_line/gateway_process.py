"""Runs a gateway, and ends its process."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Literal, NoReturn

import typer

from callability.address import AddressRefused
from callability.client import Client, PolicyUnavailable
from callability.command_line.gateway_files import print_refused
from callability.command_line.loaded_policy import Loaded
from callability.command_line.own_policy import OwnPolicy
from callability.command_line.policy_service import PolicyService
from callability.command_line.standard_streams import final_exit_code
from callability.command_line.status_line import status_line
from callability.exposition import exposed
from callability.files.policy_origin import PolicyDirectory
from callability.finding import shown
from callability.gateway.config import Config, ConfigRefused
from callability.gateway.observability import call_log
from callability.gateway.observability.metrics import Metrics
from callability.gateway.policy_client.policy_client import GET_SECONDS, PolicyClient
from callability.gateway.runtime.label_check import LabelCheck
from callability.gateway.runtime.options import GatewayOptions
from callability.gateway.serving.http_port import HttpPort
from callability.gateway.serving.lifecycle import OutputLost, run
from callability.service.edits import Edits, followed
from callability.service.observability.metrics import PolicyMetrics

CALL_SECONDS = 5.0
"""How long a call to a service takes at most, with both attempts."""
_log = logging.getLogger(__name__)


def log_calls() -> None:
    """Log a line about each call."""
    logging.getLogger(call_log.__name__).setLevel(logging.DEBUG)


@asynccontextmanager
async def connected_options(
    config: Config,
    approvals: Path | None,
    of_policy: Loaded | None,
    directory: Path | None,
    service: PolicyService | None,
    metrics_address: str | None,
) -> AsyncIterator[GatewayOptions]:
    """Yield the options of a gateway that is connected to its policy, while its metrics are served.

    Raises:
        ConfigRefused: the config has `strict_labels`, and labels that are not declared or cannot be checked.
    """
    metrics = Metrics()
    own = OwnPolicy(of_policy, PolicyMetrics(metrics.registry)) if of_policy else None
    async with _client(own, service) as client:
        policy = PolicyClient(client)
        labels = LabelCheck(policy, metrics)
        if own is not None:
            own.replaced = labels.look
        else:
            # An edit at a service is seen by the first answer of another revision.
            policy.answered = labels.answered
        await labels.start(config)
        options = GatewayOptions(config, approvals, policy, metrics, labels=labels)
        with exposed(metrics.registry, metrics_address):
            async with followed(_edits(options, own, directory, of_policy)):
                yield options


def run_and_exit(
    opened: AbstractAsyncContextManager[GatewayOptions],
    transport: Literal["stdio", "http"],
    port: HttpPort,
    agent: str,
    end: Callable[[], None],
) -> NoReturn:
    """Run a gateway with the options that `opened` yields, and end the process; `end` sends what is left of traces.

    A thread may still wait for a line of standard input, and would wait for ever; and to free the memory of thousands
    of sessions one by one takes longer than to end them.
    """

    async def serve() -> None:
        async with opened as options:
            with status_line(options.metrics):
                logging_start = asyncio.create_task(_log_start(options))
                try:
                    await run(options, transport, port, agent, _started)
                finally:
                    logging_start.cancel()

    code = 1
    try:
        asyncio.new_event_loop().run_until_complete(serve())
        code = 0
    except AddressRefused as error:
        typer.echo(f"callability: {error}", err=True)
        code = 2
    except ConfigRefused as refused:
        print_refused(refused)
    except OutputLost as lost:
        typer.echo(f"callability: {lost}", err=True)
    except Exception:
        code = final_exit_code(0)
        if not code:
            _log.exception("the gateway failed")
            code = 1
    end()
    logging.shutdown()
    os._exit(final_exit_code(code))


async def _log_start(options: GatewayOptions) -> None:
    """Log which files and which policy the gateway was started with."""
    approvals = options.approvals or options.config.approvals
    files = f"config {shown(str(options.config.path))}, " + (
        f"approvals {shown(str(approvals))}" if approvals else "no approvals file"
    )
    try:
        revision = shown((await options.policy.get_policy(GET_SECONDS)).revision)
    except PolicyUnavailable:
        revision = "unknown, since the service gives no answer"
    _log.info("started with %s, policy revision %s", files, revision)


def _started(url: str) -> None:
    _log.info("serving MCP on %s", url)
    typer.echo(f"listening on {url}")


def _edits(
    options: GatewayOptions, own: OwnPolicy | None, directory: Path | None, of_policy: Loaded | None
) -> Edits | None:
    """Return the edits of a policy in this process; the shipped one, which has no directory of its own, has none."""
    if own is None or of_policy is None or directory is None:
        return None
    options.file_status.policy_broken = lambda: own.is_broken
    return Edits(own, PolicyDirectory(directory), of_policy.source.digest, of_policy.checked)


def _client(own: OwnPolicy | None, service: PolicyService | None) -> Client:
    """Return what decides: the policy in this process, or the service."""
    if own is not None:
        return own.client
    assert service is not None
    return service.client(CALL_SECONDS)
