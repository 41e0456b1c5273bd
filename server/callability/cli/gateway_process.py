"""Runs a gateway, shows its status in a terminal, and ends its process."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NoReturn

import typer

from callability.cli.gateway_files import print_refused, records_of
from callability.cli.options import PolicyRefused, print_findings
from callability.cli.policy_service import PolicyService
from callability.cli.terminal import final_exit_code
from callability.client import PolicyUnavailable
from callability.contract.finding import as_code
from callability.files.shipped_policy import shipped_policy
from callability.gateway import observability
from callability.gateway.config.config import Config, ConfigRefused
from callability.gateway.loading import LOADING, in_words
from callability.gateway.observability import Metrics
from callability.gateway.policy_client import GET_SECONDS, PolicyClient
from callability.gateway.runtime.runtime import GatewayOptions
from callability.gateway.runtime.watched_files import LabelCheck
from callability.gateway.serving.lifecycle import OutputLost, run
from callability.gateway.serving.listening import HttpPort, UserSocket
from callability.kernel.conditions import SEMANTICS
from callability.process.address import AddressRefused
from callability.process.background import end_tasks, in_background, stop_signals
from callability.process.metrics import expose
from callability.process.web_server import StopSignals
from callability.records.format import By
from callability.records.metrics import RecordMetrics
from callability.records.recorder import Recorder, RecordOptions

if TYPE_CHECKING:
    from callability.cli.own_policy import OwnPolicy
    from callability.cli.served_policy import Loaded
    from callability.client import Client
    from callability.records.shadow import Shadow
    from callability.service.edits import Edits

REFRESHES_A_SECOND = 2


@contextmanager
def status_line(metrics: Metrics) -> Iterator[None]:
    """Show the line as long as the gateway runs, where standard error is a terminal; it is never part of the log."""
    if not sys.stderr.isatty():
        yield
        return
    # A client that starts a gateway gives it no terminal.
    from rich.console import Console  # noqa: PLC0415
    from rich.live import Live  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

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
    servers = in_words(loads) if loads.get(LOADING) else _connection_counts(metrics.servers())
    # What is counted stands first: a narrow terminal cuts the end off.
    return f"callability gateway | include_disabled asked for {times}{_labels(metrics)} | {servers}"


def _labels(metrics: Metrics) -> str:
    if metrics.labels_unchecked:
        return " | labels not checked"
    count = metrics.undeclared_labels
    return f" | undeclared labels or facts: {count}" if count else ""


def _connection_counts(states: Mapping[str, int]) -> str:
    others = "".join(f", {count} {state}" for state, count in sorted(states.items()) if state != "connected")
    return f"{states.get('connected', 0)} of {sum(states.values())} servers connected{others}"


FIRST_ANSWER_SECONDS = 2.0
"""How long the policy waits until an agent has read a first answer; a person at a terminal asks nothing."""
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
    records: RecordOptions | None = None,
    candidate: Path | None = None,
    *,
    by_meaning: bool = False,
) -> AsyncIterator[GatewayOptions]:
    """Yield the options of a gateway that is connected to its policy, while its metrics are served.

    Without a policy that was loaded, and without a service, the policy in the directory is loaded meanwhile: what asks
    the policy waits. With `strict_labels`, they wait too: nothing is started under a
    config that the policy may refuse.

    Raises:
        ConfigRefused: the config has `strict_labels`, and labels that are not declared or cannot be checked.
        PolicyRefused: the config has `strict_labels`, and the policy has errors.
    """
    metrics, policy = Metrics(), PolicyClient()
    recorder = _recorder(records, metrics, semantics=SEMANTICS if service is None else None)
    options = GatewayOptions(
        config,
        approvals,
        policy,
        metrics,
        labels=LabelCheck(policy, metrics),
        policy_directory=directory,
        policy_address=service.address if service else "",
        by_meaning=by_meaning,
        recorder=recorder,
        shadow=_shadow(metrics, recorder) if candidate else None,
        command_records=_of_commands(config, records),
    )
    async with AsyncExitStack() as stack, _closing(recorder):
        if options.shadow and candidate:
            # What compares verdicts and follows policies is imported where one is followed.
            from callability.files.policy_origin import origin_at  # noqa: PLC0415
            from callability.service.edits import shadow_edits  # noqa: PLC0415

            edits = shadow_edits(options.shadow, origin_at(candidate))
            await stack.enter_async_context(in_background(edits.follow()))
        beginning = _Beginning(stack, options, directory, service)
        with expose(metrics.registry, metrics_address):
            if of_policy is None and service is None and not config.strict_labels:
                task = asyncio.create_task(beginning.load_after_an_answer(), name="loading the policy")
                stack.push_async_callback(end_tasks, task)
                yield replace(options, beginning=task)
            else:
                await (beginning.load() if of_policy is None and service is None else beginning.begin(of_policy))
                yield options


class _Beginning:
    """Connects the options of a gateway to its policy."""

    def __init__(
        self, stack: AsyncExitStack, options: GatewayOptions, directory: Path | None, service: PolicyService | None
    ) -> None:
        self._stack = stack
        self._options = options
        self._directory = directory
        self._service = service

    async def load_after_an_answer(self) -> None:
        """Load the policy once an agent has read a first answer, which so waits for nothing; or if nobody asks.

        Raises:
            PolicyRefused: it has errors.
        """
        with suppress(TimeoutError):
            await asyncio.wait_for(self._options.first_answer.wait(), FIRST_ANSWER_SECONDS)
        # In a thread, so that further requests are answered meanwhile.
        await asyncio.to_thread(import_module, "callability.cli.own_policy")
        await self.load()

    async def load(self) -> None:
        """Load the policy in the directory, and decide by it.

        Raises:
            PolicyRefused: it has errors.
        """
        from callability.cli.served_policy import load_policy_of  # noqa: PLC0415
        from callability.files.policy_origin import PolicyDirectory  # noqa: PLC0415

        await self.begin(await load_policy_of(PolicyDirectory(self._directory or shipped_policy())))

    async def begin(self, of_policy: Loaded | None) -> None:
        """Decide by a policy that was loaded, or else by the service.

        Raises:
            ConfigRefused: the config has `strict_labels`, and labels that are not declared or cannot be checked.
        """
        options, labels = self._options, self._options.labels
        assert labels is not None
        own = None
        if of_policy:
            from callability.cli.own_policy import OwnPolicy  # noqa: PLC0415
            from callability.service.metrics import PolicyMetrics  # noqa: PLC0415

            own = OwnPolicy(of_policy, PolicyMetrics(options.metrics.registry), options.recorder)
        client = await self._stack.enter_async_context(_client(own, self._service))
        if own is not None:
            own.replaced = labels.look
        else:
            # An edit at a service is seen by the first answer of another revision.
            options.policy.note_revision = labels.note_revision
        options.policy.begin(client)
        await labels.start(options.config)
        edits = _edits(options, own, self._directory, of_policy)
        if edits is not None:
            await self._stack.enter_async_context(in_background(edits.follow()))


def _shadow(metrics: Metrics, recorder: Recorder | None) -> Shadow:
    from callability.records.shadow import Shadow  # noqa: PLC0415

    return Shadow(metrics.registry, recorder)


def _recorder(records: RecordOptions | None, metrics: Metrics, *, semantics: int | None) -> Recorder | None:
    if records is None:
        return None
    recorder = Recorder(records, By.GATEWAY, semantics=semantics)
    RecordMetrics(metrics.registry, recorder.writer)
    metrics.recorder = recorder
    return recorder


@asynccontextmanager
async def _closing(recorder: Recorder | None) -> AsyncIterator[None]:
    """Write the last records at the end of the context."""
    try:
        yield
    finally:
        if recorder is not None:
            await asyncio.to_thread(recorder.close)


def _of_commands(config: Config, records: RecordOptions | None) -> Path | None:
    """Return where commands write their records, if this gateway writes its own there too."""
    wanted = records_of(config)
    if records is None or wanted is None or records.destination.is_standard_output:
        return None
    return Path(wanted.destination.place) if wanted.destination.place == records.destination.place else None


def run_and_exit(
    opened: AbstractAsyncContextManager[GatewayOptions],
    transport: Literal["stdio", "http", "unix"],
    port: HttpPort | UserSocket,
    agent: str,
    end: Callable[[], None],
) -> NoReturn:
    """Run a gateway with the options that `opened` yields, and end the process; `end` sends what is left of traces.

    A thread may still wait for a line of standard input, and would wait for ever; and to free the memory of thousands
    of sessions one by one takes longer than to end them.
    """

    async def serve() -> None:
        async with opened as connected:
            options = replace(connected, has_status_socket=True)
            with status_line(options.metrics):
                logging_start = asyncio.create_task(_log_start(options))
                try:
                    await _run(options, transport, port, agent)
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
    except PolicyRefused as refused:
        print_findings(refused.findings)
        typer.echo(f"callability: {refused}", err=True)
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


async def _run(
    options: GatewayOptions, transport: Literal["stdio", "http", "unix"], port: HttpPort | UserSocket, agent: str
) -> None:
    """Run a gateway until it ends, or until its policy is refused, which may be known only after it began to answer.

    Raises:
        AddressRefused, ConfigRefused, OutputLost, PolicyRefused: why it ended.
    """
    signals = StopSignals(*stop_signals())
    running = asyncio.create_task(run(options, transport, port, agent, _report_start, signals))
    try:
        if options.beginning is not None:
            await asyncio.wait({running, options.beginning}, return_when=asyncio.FIRST_COMPLETED)
            # An agent that closes at once is no reason to pass over what is wrong.
            if not signals.requested.is_set() and (options.beginning.done() or not running.exception()):
                await asyncio.shield(options.beginning)
        await running
    finally:
        running.cancel()
        await asyncio.wait({running})


async def _log_start(options: GatewayOptions) -> None:
    """Log which files and which policy the gateway was started with."""
    approvals = options.approvals or options.config.approvals
    files = f"config {as_code(str(options.config.path))}, " + (
        f"approvals {as_code(str(approvals))}" if approvals else "no approvals file"
    )
    if options.beginning is not None:
        await asyncio.wait({options.beginning})
        if not options.policy.is_started:
            return
    try:
        revision = as_code((await options.policy.get_policy(GET_SECONDS)).revision)
    except PolicyUnavailable:
        revision = "unknown, since the service gives no answer"
    _log.info("started with %s, policy revision %s", files, revision)


def _report_start(url: str) -> None:
    _log.info("serving MCP on %s", url)
    typer.echo(f"listening on {url}")


def _edits(
    options: GatewayOptions, own: OwnPolicy | None, directory: Path | None, of_policy: Loaded | None
) -> Edits | None:
    """Return the edits of a policy in this process; the shipped one, which has no directory of its own, has none."""
    from callability.files.policy_origin import PolicyDirectory  # noqa: PLC0415
    from callability.service.edits import Edits  # noqa: PLC0415

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
