"""A service of several processes on one port: started, replaced, measured as one, and given each edit of the policy."""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from io import BufferedRWPair
from pathlib import Path
from typing import Any

import uvloop
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from callability.files.certificates import CertificateFiles, CertificateRefused, WatchedCertificates
from callability.kernel.policy import CheckedPolicy, read
from callability.otel.traces import start_traces
from callability.process.address import AddressRefused, reserve_port
from callability.process.background import in_background
from callability.process.logs import fields, log_to_standard_error
from callability.process.metrics import CertificateMetrics
from callability.records.format import By, Change
from callability.records.metrics import RecordMetrics
from callability.records.recorder import Recorder, RecordOptions, record_edits
from callability.records.shadow import Shadow
from callability.service.callers import CallersRefused, WatchedCallers, load_callers
from callability.service.calls import RejectedEdit, ServedPolicy
from callability.service.edits import ServedEdits
from callability.service.metrics import CallerMetrics, CallMetrics, Observer, PolicyMetrics, log_call
from callability.service.server import Port, Server, return_large_blocks

SERVICE_NAME = "callability-service"
"""The name of the service in traces, unless a variable gives another."""


@dataclass(frozen=True, slots=True)
class LogOptions:
    """The lowest level that is logged, how a line is written, and whether each call has one."""

    level: str = "info"
    form: str = "text"
    calls: bool = False


@dataclass(frozen=True, slots=True)
class InstanceOptions:
    """How an instance listens, and whom it answers. It can be passed to another process."""

    address: str
    certificates: CertificateFiles | None = None
    callers: Path | None = None
    insecure: bool = False
    socket_mode: int | None = None
    concurrent_calls: int = 2_000
    connection_seconds: int | None = None
    reuse_port: bool = False
    log: LogOptions = LogOptions()
    traces: bool = False
    records: RecordOptions | None = None
    shadow: bool = False

    def check(self, workers: int = 1) -> None:
        """Check everything that does not need the policy, with less effort than a start.

        Raises:
            AddressRefused: the address may not or cannot be listened on.
            CallersRefused: the callers file has errors.
            CertificateRefused: the certificate cannot be used.
            DestinationRefused: records cannot go where they should.
        """
        if self.records:
            self.records.destination.check()
        certificates = WatchedCertificates(self.certificates) if self.certificates else None
        if self.callers:
            load_callers(self.callers)
        port = self.port(certificates)
        port.check()
        if workers > 1 and port.is_socket:
            raise AddressRefused("`--workers` needs HOST:PORT: a Unix socket has one process")

    def port(self, certificates: WatchedCertificates | None) -> Port:
        """Return the port with some certificates."""
        return Port(
            self.address,
            certificates,
            self.callers is not None,
            self.insecure,
            self.socket_mode,
            self.connection_seconds,
            self.reuse_port,
        )


class Instance:
    """Answers by a policy until it is given another.

    Raises:
        AddressRefused: the address may not or cannot be listened on.
        CallersRefused: the callers file has errors.
        CertificateRefused: the certificate cannot be used.
    """

    def __init__(self, options: InstanceOptions, checked: CheckedPolicy) -> None:
        self.registry = CollectorRegistry()
        self.metrics = PolicyMetrics(self.registry)
        calls = CallMetrics(self.registry, tuple(_observers(options)))
        ProcessCollector(registry=self.registry)
        self._recorder = Recorder(options.records, By.SERVICE) if options.records else None
        if self._recorder is not None:
            RecordMetrics(self.registry, self._recorder.writer)
        self.shadow = Shadow(self.registry, self._recorder) if options.shadow else None
        """What a candidate decides by, beside the policy that is served; None if there is none."""
        self._callers = WatchedCallers(options.callers) if options.callers else None
        self._certificates = WatchedCertificates(options.certificates) if options.certificates else None
        about_callers, about_certificates = CallerMetrics(self.registry), CertificateMetrics(self.registry)
        if self._callers is not None:
            about_callers.follow(self._callers)
            if self._recorder is not None:
                record_edits(self._recorder, Change.CALLERS, self._callers)
        if self._certificates is not None:
            self._certificates.report_to(about_certificates.record)
            if self._recorder is not None:
                record_edits(self._recorder, Change.CERTIFICATES, self._certificates)
        self._server = Server(
            checked,
            options.port(self._certificates),
            self.metrics,
            options.concurrent_calls,
            self._callers,
            calls,
            self._recorder,
            self.shadow,
        )
        self.metrics.decides(self.served.calls.policy, checked.engine)

    @property
    def served(self) -> ServedPolicy:
        """The policy that is served."""
        return self._server.served

    @property
    def address(self) -> str:
        """Where it listens."""
        return self._server.address

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Answer calls and follow the files inside the context; at its end, drain."""
        await self._server.start()
        try:
            async with in_background(*self._followers()):
                yield
        finally:
            await self._server.drain()
            if self._recorder is not None:
                await asyncio.to_thread(self._recorder.close)

    def _followers(self) -> Iterator[Coroutine[Any, Any, None]]:
        if self._certificates is not None:
            yield self._certificates.follow()
        if self._callers is not None:
            yield self._callers.follow()


def _observers(options: InstanceOptions) -> Iterator[Observer]:
    if options.log.calls:
        yield log_call
    if options.traces:
        from callability.service.call_spans import CallSpans  # noqa: PLC0415  # of an extra

        yield CallSpans()


_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Edition:
    """The policy to decide by from now on; with `rejected`, the edit that did not replace it."""

    number: int
    checked: CheckedPolicy
    rejected: RejectedEdit | None = None


@dataclass(frozen=True, slots=True)
class Start:
    """To a worker, first: its number, and what it serves."""

    number: int
    options: InstanceOptions
    edition: Edition


@dataclass(frozen=True, slots=True)
class Look:
    """To a worker, each second: an edition if there is another, and whether to send the metrics."""

    edition: Edition | None
    collect: bool


@dataclass(frozen=True, slots=True)
class Report:
    """From a worker, to each of these: by which edition it decides, or why it cannot serve."""

    decides: int
    metrics: tuple[Metric, ...] = ()
    fault: str = ""


def send(stream: BufferedRWPair, message: object) -> None:
    """Send a message.

    Raises:
        OSError: the other process has ended, or does not read.
    """
    stream.write(pickle.dumps(message))
    stream.flush()


class Worker:
    """Serves one policy after the other, until `ended` is set."""

    def __init__(self, instance: Instance, edition: Edition, ended: asyncio.Event) -> None:
        self._instance = instance
        self._edits = ServedEdits(instance.served, instance.metrics)
        self._decides = edition.number
        self._ended = ended

    async def report(self, stream: BufferedRWPair) -> None:
        """Answer each look; once the other process closes the connection, this one ends."""
        try:
            async with asyncio.TaskGroup() as loading:
                with suppress(EOFError, OSError, pickle.UnpicklingError):
                    look = Look(None, collect=False)
                    while True:
                        if look.edition is not None:
                            loading.create_task(self._load(look.edition))
                        metrics = await asyncio.to_thread(self._instance.registry.collect) if look.collect else ()
                        await asyncio.to_thread(send, stream, Report(self._decides, tuple(metrics)))
                        look = await asyncio.to_thread(pickle.load, stream)
        except Exception:
            _logger.exception("the worker cannot report, and ends")
        finally:
            self._ended.set()

    async def _load(self, edition: Edition) -> None:
        try:
            rejected = edition.rejected
            await (self._edits.report_rejected(rejected) if rejected else self._edits.accept(edition.checked))
            self._decides = edition.number
        except Exception:
            _logger.exception("an edit of the policy cannot be loaded")
            self._ended.set()


async def _run(stream: BufferedRWPair) -> None:
    start: Start = pickle.load(stream)
    log = start.options.log
    log_to_standard_error(log.level, log.form, start.number)
    return_large_blocks()
    hand_over_traces = start_traces(SERVICE_NAME) if start.options.traces else lambda: None
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    # A terminal sends them to the first process too, which then ends its workers.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    try:
        instance = Instance(start.options, start.edition.checked)
    except (AddressRefused, CallersRefused, CertificateRefused) as error:
        send(stream, Report(0, fault=str(error)))
        return
    instance.served.rejected = start.edition.rejected
    instance.metrics.refuses(files=start.edition.rejected is not None)
    async with instance.running(), in_background(Worker(instance, start.edition, ended).report(stream)):
        await ended.wait()
    hand_over_traces()
    # Closing the event loop would cancel the calls that come in meanwhile.
    logging.shutdown()
    os._exit(0)


def main() -> None:
    """Serve on the socket that is the standard input."""
    # gRPC writes lines of its own to standard error, beside the log and in another form.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    uvloop.run(_run(socket.socket(fileno=0).makefile("rwb")))


LOOK_SECONDS = 1.0
SILENT_SECONDS = 4.0
"""How long a worker may take to answer a look; one that takes longer is replaced, as is one that is stopped."""
LOAD_SECONDS = 120.0
"""How long a worker may take until it answers calls, or until it decides by an edit."""
COLLECT_SECONDS = 2.0
"""How long a worker may take to send its metrics; one that takes longer is left out."""
DRAIN_SECONDS = 20.0
"""How long a worker may take to drain. It is killed afterwards."""
RESTART_SECONDS = (0.1, 5.0)
"""The first and the longest pause before a worker is started again; the pause doubles."""


@dataclass(slots=True)
class _Worker:
    """A process, the number of the edition by which it decides, and what waits for its metrics."""

    process: subprocess.Popen[bytes]
    wake: threading.Event = field(default_factory=threading.Event)
    decides: int = 0
    wanted: Future[Iterable[Metric]] | None = None


class Workers(Collector):
    """Keeps a number of workers running on one address, each by a thread. They are other programs: gRPC never starts in
    this one.

    `checked` is the output of the check of the policy that they begin with. Each worker applies an edit as soon as it
    has loaded it, so that they may differ for a moment.
    """

    def __init__(self, options: InstanceOptions, count: int, checked: CheckedPolicy) -> None:
        self._reserved = reserve_port(options.address)
        port = self._reserved.getsockname()[1]
        self.address = f"{options.address.rpartition(':')[0]}:{port}"
        self._options = replace(options, address=self.address, reuse_port=True)
        self._edition = Edition(1, checked)
        self._numbers = range(1, count + 1)
        self._workers: dict[int, _Worker] = {}
        self._stopping = threading.Event()
        self.restarts = 0
        """How often a worker was started again."""
        self._own = CollectorRegistry()
        ProcessCollector(registry=self._own)

    @property
    def running(self) -> Mapping[int, int]:
        """The workers that answer, by number, each with the number of the edition by which it decides."""
        return {number: each.decides for number, each in list(self._workers.items()) if each.decides}

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Run the workers inside the context, and drain them at its end.

        Raises:
            AddressRefused: a worker cannot listen at the address.
        """
        started = {number: Future[None]() for number in self._numbers}
        threads = [threading.Thread(target=self._keep, args=each) for each in started.items()]
        for each in threads:
            each.start()
        try:
            await asyncio.gather(*map(asyncio.wrap_future, started.values()))
            yield
        finally:
            self._stopping.set()
            self._wake()
            for each in threads:
                await asyncio.to_thread(each.join)
            self._reserved.close()

    async def accept(self, checked: CheckedPolicy) -> None:
        """Hand an edit to all workers."""
        revision = (await asyncio.to_thread(read, checked.bundle)).revision
        self._hand_out(checked, None)
        words = "the edit of the policy is handed to %d workers: revision %s"
        _logger.info(words, len(self._workers), revision, extra=fields(revision=revision))

    async def report_rejected(self, rejected: RejectedEdit) -> None:
        """Report an edit that is refused to all workers."""
        self._hand_out(self._edition.checked, rejected)

    def _hand_out(self, checked: CheckedPolicy, rejected: RejectedEdit | None) -> None:
        self._edition = Edition(self._edition.number + 1, checked, rejected)
        self._wake()

    def _wake(self) -> None:
        for each in list(self._workers.values()):
            each.wake.set()

    def _keep(self, number: int, started: Future[None]) -> None:
        """Run a worker, and start it again whenever it has ended, until the service stops."""
        pause, longest = RESTART_SECONDS
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                fault = self._run(number, started)
            except Exception:
                # Its connection is closed, so that it ends.
                _logger.exception("worker %d cannot be looked after", number)
                fault = f"worker {number} cannot be looked after"
            if self._stopping.is_set():
                return
            if not started.done():
                started.set_exception(AddressRefused(fault))
                return
            _logger.error("%s; it is started again", fault)
            if time.monotonic() - began > longest:
                pause = RESTART_SECONDS[0]
            self._stopping.wait(pause)
            pause = min(2 * pause, longest)
            self.restarts += 1

    def _run(self, number: int, started: Future[None]) -> str:
        """Start a worker, and look after it until it has ended; return how that was."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            records = self._options.records
            output = None if records and records.destination.is_standard_output else subprocess.DEVNULL
            command = (sys.executable, "-c", f"from {__name__} import main; main()")
            try:
                process = subprocess.Popen(command, stdin=theirs.fileno(), stdout=output)
            except OSError as error:
                return f"worker {number} cannot be started: {(error.strerror or 'error').lower()}"
            theirs.close()
            each = self._workers[number] = _Worker(process)
            fault = ""
            try:
                fault = self._look_after(number, each, ours, started)
            except TimeoutError:
                fault = f"worker {number} does not answer"
                process.kill()
            except (EOFError, OSError, pickle.UnpicklingError):
                """It has ended."""
            finally:
                del self._workers[number]
        try:
            code = process.wait(DRAIN_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        return fault or f"worker {number} has ended with code {code}"

    def _look_after(self, number: int, each: _Worker, end: socket.socket, started: Future[None]) -> str:
        """Give a worker the edition that decides, and look each second; return why it cannot serve.

        Raises:
            TimeoutError: it does not answer, or does not load an edition.
            EOFError, OSError, pickle.UnpicklingError: it has ended.
        """
        stream = end.makefile("rwb")
        end.settimeout(LOAD_SECONDS)
        given, since = self._edition, time.monotonic()
        send(stream, Start(number, self._options, given))
        while not self._stopping.is_set():
            report: Report = pickle.load(stream)
            if report.fault:
                return f"worker {number} cannot serve: {report.fault}" if started.done() else report.fault
            each.decides = report.decides
            if not started.done():
                started.set_result(None)
            if report.metrics and each.wanted is not None:
                wanted, each.wanted = each.wanted, None
                wanted.set_result(report.metrics)
            end.settimeout(SILENT_SECONDS)
            each.wake.wait(LOOK_SECONDS)
            each.wake.clear()
            another = None
            if each.decides == given.number and self._edition is not given:
                another = given = self._edition
                since = time.monotonic()
            elif each.decides != given.number and time.monotonic() - since > LOAD_SECONDS:
                raise TimeoutError
            send(stream, Look(another, collect=each.wanted is not None))
        return ""

    def describe(self) -> list[Metric]:
        """Return nothing: the workers are asked at each scrape, and not before."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of each worker that sends them in time, and those of this process, by whose they are."""
        yield GaugeMetricFamily("callability_workers_running", "Workers that run.", len(self.running))
        words = "Workers that ended and were started again."
        yield CounterMetricFamily("callability_worker_restarts", words, self.restarts)
        wanted = dict[int, Future[Iterable[Metric]]]()
        for number, each in list(self._workers.items()):
            each.wanted = wanted[number] = each.wanted or Future()
            each.wake.set()
        wait(wanted.values(), COLLECT_SECONDS)
        found = {str(number): each.result() for number, each in sorted(wanted.items()) if each.done()}
        families: dict[str, Metric] = {}
        for label, metrics in {**found, "supervisor": self._own.collect()}.items():
            for metric in metrics:
                family = families.setdefault(metric.name, Metric(metric.name, metric.documentation, metric.type))
                for sample in metric.samples:
                    family.add_sample(sample.name, {**sample.labels, "worker": label}, sample.value)
        yield from families.values()
