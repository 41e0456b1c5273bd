"""`callability gateway`: an MCP server in front of other MCP servers."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NoReturn

import grpc
import typer

from callability.address import AddressRefused
from callability.command_line.config import checked_files
from callability.command_line.files import GivenApprovalsOption
from callability.command_line.options import (
    Loaded,
    LogLevel,
    LogLevelOption,
    MetricsOption,
    PolicyOption,
    check_address,
    check_metrics_address,
    leave,
    loaded_to_serve,
    log_to_standard_error,
)
from callability.command_line.start_report import Form, FormOption, StartReport, StrictOption
from callability.command_line.status_line import status_line
from callability.exposition import exposed
from callability.finding import did_you_mean, line, shown
from callability.gateway.config import Config, ConfigRefused, load_config
from callability.gateway.decisions import CallabilityStub
from callability.gateway.live import Setup
from callability.gateway.metrics import Metrics
from callability.gateway.serving import run
from callability.policy.loading import check_written, written_in
from callability.policy.shipped import shipped_policy
from callability.service.edits import Edits, followed
from callability.service.in_process import InProcessStub
from callability.service.metrics import PolicyMetrics
from callability.v1.callability_service_pb2_grpc import CallabilityServiceStub

_log = logging.getLogger(__name__)


class Transport(StrEnum):
    """How agents connect."""

    STDIO = "stdio"
    HTTP = "http"


def gateway(
    config: Annotated[
        Path, typer.Option("--config", metavar="FILE", help="The servers: `mcpServers`, in JSON or YAML.")
    ],
    approvals: GivenApprovalsOption = None,
    policy: PolicyOption = None,
    policy_address: Annotated[
        str | None,
        typer.Option(
            "--policy-address", metavar="ADDRESS", help="Ask a `callability serve` at 127.0.0.1:PORT or unix:PATH."
        ),
    ] = None,
    transport: Annotated[Transport, typer.Option(help="How agents connect.")] = Transport.STDIO,
    address: Annotated[
        str, typer.Option(metavar="ADDRESS", help="127.0.0.1:PORT for `--transport http`; port 0 takes a free one.")
    ] = "127.0.0.1:7421",
    agent: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Over stdio: the agent of the config that asks. Left out: sees every server."
        ),
    ] = "",
    metrics_address: MetricsOption = None,
    log_level: LogLevelOption = LogLevel.INFO,
    check: Annotated[
        bool, typer.Option("--check", help="Check the files and the policy, print the findings, and exit.")
    ] = False,
    strict: StrictOption = False,
    form: FormOption = Form.TEXT,
) -> None:
    """Stand as one MCP server in front of many: agents find and call tools, and read why one cannot be called.

    An edit of the config, of the approvals or of the policy takes effect while it runs, whole or not at all. It ends
    when standard input closes (stdio), or at SIGTERM, SIGINT or SIGHUP, and the processes of its servers with it. Over
    HTTP its URL is written to standard output. With `--check` no server is started, and nothing is listened on. Exit
    code 0: ended, or no errors. 1: the config or the policy is refused. 2: a wrong call, or an address that cannot be
    listened on.
    """
    log_to_standard_error(log_level)
    if not check and (strict or form is not Form.TEXT):
        leave("`--strict` and `--format` go with `--check`", 2)
    if policy and policy_address is not None:
        leave("`--policy` and `--policy-address` exclude each other", 2)
    if policy_address is not None and not policy_address.startswith("unix:"):
        check_address(policy_address, "the service is asked without encryption")
    check_metrics_address(metrics_address)
    if check:
        raise _checked(config, approvals, policy, agent, transport, strict=strict).printed(form)
    read = _config(config)
    if agent:
        _check_agent(read, agent, transport)
    for finding in read.warnings:
        _log.warning("%s", finding)
    of_policy = loaded_to_serve(policy) if policy_address is None else None

    async def serve() -> None:
        metrics = Metrics()
        about_policy = PolicyMetrics(metrics.registry) if of_policy else None
        async with _stub(of_policy, policy_address, about_policy) as stub:
            setup = Setup(read, approvals, stub, metrics)
            with exposed(metrics.registry, metrics_address), status_line(metrics):
                async with followed(_edits(setup, of_policy, policy, about_policy)):
                    await run(setup, transport.value, address, agent, _started)

    _run_and_leave(serve())


def _run_and_leave(serving: Coroutine[None, None, None]) -> NoReturn:
    """Run, and end the process.

    A thread may still wait for a line of standard input, and would wait for ever; and to free the memory of thousands
    of sessions one by one takes longer than to end them.
    """
    code = 1
    try:
        asyncio.new_event_loop().run_until_complete(serving)
        code = 0
    except AddressRefused as error:
        _log.error("%s", error)
        code = 2
    except Exception:
        _log.exception("the gateway failed")
    logging.shutdown()
    os._exit(code)


def _check_agent(config: Config, agent: str, transport: Transport) -> None:
    if transport is Transport.HTTP:
        leave("`--agent` goes with `--transport stdio`: over HTTP a token tells who asks", 2)
    if agent not in config.agents:
        hint = did_you_mean(agent, config.agents)
        leave(f"the config has no agent {shown(agent)}" + (f" ({hint})" if hint else ""), 2)


def _started(url: str) -> None:
    _log.info("serving MCP on %s", url)
    typer.echo(f"listening on {url}")


def _config(path: Path) -> Config:
    try:
        return load_config(path, os.environ)
    except ConfigRefused as error:
        for finding in error.findings:
            typer.echo(line(finding), err=True)
        leave("the config is refused", 1)


def _checked(
    path: Path, approvals: Path | None, policy: Path | None, agent: str, transport: Transport, *, strict: bool
) -> StartReport:
    """Return what a start would find."""
    files = checked_files(path, approvals)
    if agent and files.config is not None:
        _check_agent(files.config, agent, transport)
    of_policy = check_written(written_in(policy or shipped_policy()))
    return StartReport.of(path, (*files.findings, *of_policy.findings), strict=strict)


def _edits(
    setup: Setup, of_policy: Loaded | None, directory: Path | None, metrics: PolicyMetrics | None
) -> Edits | None:
    """Return the edits of a policy in this process; the shipped one, which has no directory of its own, has none."""
    if of_policy is None or metrics is None or not isinstance(setup.stub, InProcessStub):
        return None
    metrics.decides(of_policy.policy)
    if directory is None:
        return None
    served = setup.stub.served
    setup.standing.policy_broken = lambda: served.rejected is not None
    return Edits(served, directory, of_policy.digest, metrics)


@asynccontextmanager
async def _stub(
    of_policy: Loaded | None, address: str | None, metrics: PolicyMetrics | None
) -> AsyncIterator[CallabilityStub]:
    """Yield the policy in this process, or a channel to the service."""
    if address is None:
        assert of_policy is not None
        yield InProcessStub(of_policy.policy, metrics)
        return
    async with grpc.aio.insecure_channel(address, options=[("grpc.max_reconnect_backoff_ms", 1_000)]) as channel:
        yield CallabilityServiceStub(channel)
