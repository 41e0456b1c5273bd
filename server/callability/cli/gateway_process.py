"""Runs a gateway, and ends its process.

The status line of a gateway that runs in a terminal: the state of its servers, and counts.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Literal, NoReturn

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from callability.cli.gateway_files import print_refused
from callability.cli.own_policy import OwnPolicy
from callability.cli.policies import Loaded
from callability.cli.policy_service import PolicyService
from callability.cli.terminal import final_exit_code
from callability.client import Client, PolicyUnavailable
from callability.contract.finding import shown
from callability.files.policy_origin import PolicyDirectory
from callability.gateway import observability
from callability.gateway.config import Config, ConfigRefused
from callability.gateway.loading import LOADING, in_words
from callability.gateway.observability import Metrics
from callability.gateway.policy_client import GET_SECONDS, PolicyClient
from callability.gateway.runtime.runtime import GatewayOptions
from callability.gateway.runtime.watched_files import LabelCheck
from callability.gateway.serving.http_connections import HttpPort
from callability.gateway.serving.lifecycle import OutputLost, run
from callability.process.address import AddressRefused
from callability.process.metrics import exposed
from callability.service.edits import Edits, followed
from callability.service.metrics import PolicyMetrics

REFRESHES_A_SECOND = 2


@contextmanager
def status_line(metrics: Metrics) -> Iterator[None]:
    """Show the line as long as the gateway runs, where standard error is a terminal; it is never part of the log."""
    console = Console(stderr=True)
    if not console.is_terminal or console.is_dumb_terminal:
        yield
        return
    handlers = [each for each in logging.getLogger().handlers if isinstance(each, logging.StreamHandler)]
    with Live(
        console=console,
        get_renderable=lambda: Text(status(metrics), style="reverse", no_wrap=True, overflow="ellipsis"),
        refresh_per_second=REFRESHES_A_SECOND,
        transient=True,
        redirect_stdout=False,
    ):
        # Records go through the console from here on, so that they stand above the line.
        before = [handler.setStream(sys.stderr) for handler in handlers]
        try:
            yield
        finally:
            for handler, stream in zip(handlers, before, strict=True):
                handler.setStream(stream)


def status(metrics: Metrics) -> str:
    """Return the line (FR-013)."""
    count = metrics.opted_in_calls
    times = "once" if count == 1 else f"{count} times"
    loads = metrics.loads()
    servers = in_words(loads) if loads.get(LOADING) else _connected(metrics.servers())
    # What is counted stands first: a narrow terminal cuts the end off.
    return f"callability gateway | include_disabled asked for {times}{_labels(metrics)} | {servers}"


def _labels(metrics: Metrics) -> str:
    if metrics.labels_unchecked:
        return " | labels not checked"
    count = metrics.undeclared_labels
    return f" | undeclared labels or facts: {count}" if count else ""


def _connected(states: Mapping[str, int]) -> str:
    others = "".join(f", {count} {state}" for state, count in sorted(states.items()) if state != "connected")
    return f"{states.get('connected', 0)} of {sum(states.values())} servers connected{others}"


CALL_SECONDS = 5.0
"""How long a call to a service takes at most, with both attempts."""
_log = logging.getLogger(__name__)


def log_calls() -> None:
    """Log a line about each call."""
    logging.getLogger(observability.__name__).setLevel(logging.DEBUG)


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
