"""A service of several processes on one port: started, replaced, measured as one, and given each edit of the policy."""

from __future__ import annotations

import asyncio
import logging
import pickle
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from callability.address import AddressRefused, reserve_port
from callability.kernel.checked_policy import CheckedPolicy
from callability.kernel.policy import read
from callability.log_output import fields
from callability.service import worker
from callability.service.calls.served_policy import RejectedEdit
from callability.service.instance import InstanceOptions
from callability.service.worker import Edition, Look, Report, Start, send

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
_logger = logging.getLogger(__name__)


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

    async def accepted(self, checked: CheckedPolicy) -> None:
        """Hand an edit to all workers."""
        revision = (await asyncio.to_thread(read, checked.bundle)).revision
        self._hand_out(checked, None)
        words = "the edit of the policy is handed to %d workers: revision %s"
        _logger.info(words, len(self._workers), revision, extra=fields(revision=revision))

    async def rejected(self, rejected: RejectedEdit) -> None:
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
            command = (sys.executable, "-c", f"from {worker.__name__} import main; main()")
            try:
                process = subprocess.Popen(command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL)
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
                return report.fault
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
