"""A worker of a service: one process that answers, as its supervisor says."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys

import uvloop

from callability.address import AddressRefused
from callability.certificates import CertificateRefused
from callability.kernel.checked_policy import CheckedPolicy
from callability.log_output import log_to_standard_error
from callability.service.callers.callers_file import CallersRefused
from callability.service.calls.callability_calls import CallabilityCalls
from callability.service.control import Collect, Collected, Commit, Control, Loading, Prepare, Ready, Reject, Start
from callability.service.edits import ServedEdits
from callability.service.instance import SERVICE_NAME, Instance
from callability.service.memory import return_large_blocks
from callability.traces import start_traces

_logger = logging.getLogger(__name__)


class Worker:
    """Serves one policy after the other, and sends its metrics when they are wanted."""

    def __init__(self, instance: Instance, control: Control) -> None:
        self._instance = instance
        self._control = control
        self._edits = ServedEdits(instance.served, instance.metrics)
        self._prepared: tuple[CallabilityCalls, CheckedPolicy] | None = None

    async def obey(self) -> None:
        """Do what the supervisor says, until it closes the connection."""
        while True:
            try:
                message = await self._control.receive()
            except (EOFError, ConnectionError):
                return
            match message:
                case Prepare(checked=checked):
                    await self._control.send(Loading())
                    await self._control.send(await self._prepare(checked))
                case Commit() if self._prepared is not None:
                    self._edits.apply(*self._prepared)
                    self._prepared = None
                case Reject(rejected=rejected):
                    self._edits.reject(rejected)
                case Collect(request=request):
                    metrics = await asyncio.to_thread(lambda: list(self._instance.registry.collect()))
                    await self._control.send(Collected(request, metrics))

    async def _prepare(self, checked: CheckedPolicy) -> Ready:
        try:
            calls = await asyncio.to_thread(CallabilityCalls, checked, self._instance.metrics)
        except Exception as error:
            _logger.exception("an edit of the policy cannot be loaded")
            return Ready(fault=type(error).__name__)
        self._prepared = calls, checked
        return Ready()


async def _run(end: socket.socket) -> None:
    control = await Control.of(end)
    start = await control.receive()
    assert isinstance(start, Start)
    log = start.options.log
    log_to_standard_error(log.level, log.form, start.number)
    return_large_blocks()
    hand_over_traces = start_traces(SERVICE_NAME) if start.options.traces else lambda: None
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    # A terminal sends it to the supervisor too, which then ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        instance = Instance(start.options, start.checked)
    except (AddressRefused, CallersRefused, CertificateRefused) as error:
        await control.send(Ready(fault=str(error)))
        return
    instance.served.rejected = start.rejected
    instance.metrics.refuses(files=start.rejected is not None)
    async with instance.running():
        await control.send(Ready(address=instance.address))
        obeying, stopped = asyncio.create_task(Worker(instance, control).obey()), asyncio.create_task(stopping.wait())
        await asyncio.wait({obeying, stopped}, return_when=asyncio.FIRST_COMPLETED)
    hand_over_traces()
    # Closing the event loop would cancel the calls that come in meanwhile.
    logging.shutdown()
    os._exit(0)


def main() -> None:
    """Serve on the socket whose number is the argument."""
    # gRPC writes lines of its own to standard error, beside the log and in another form.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    uvloop.run(_run(socket.socket(fileno=int(sys.argv[1]))))


if __name__ == "__main__":
    main()
