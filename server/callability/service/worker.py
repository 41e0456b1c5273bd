"""A worker of a service: one process that answers, and the messages between it and the process that started it."""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import signal
import socket
from contextlib import suppress
from dataclasses import dataclass
from io import BufferedRWPair

import uvloop
from prometheus_client.core import Metric

from callability.address import AddressRefused
from callability.background import in_background
from callability.certificates import CertificateRefused
from callability.kernel.checked_policy import CheckedPolicy
from callability.log_output import log_to_standard_error
from callability.service.callers.callers_file import CallersRefused
from callability.service.calls.served_policy import RejectedEdit
from callability.service.edits import ServedEdits
from callability.service.instance import SERVICE_NAME, Instance, InstanceOptions
from callability.service.memory import return_large_blocks
from callability.traces import start_traces

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
            await (self._edits.rejected(rejected) if rejected else self._edits.accepted(edition.checked))
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
    # A terminal sends it to the first process too, which then ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
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
