"""The supervisor of a service with several workers: it starts them, restarts them, and hands edits to all at once."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from prometheus_client.core import Metric

from callability.address import AddressRefused
from callability.kernel.checked_policy import CheckedPolicy
from callability.kernel.policy import read
from callability.log_output import fields
from callability.service import worker
from callability.service.calls.served_policy import RejectedEdit
from callability.service.control import Collect, Collected, Commit, Control, Loading, Prepare, Ready, Reject, Start
from callability.service.edits import CHECK_SECONDS
from callability.service.instance import InstanceOptions

START_SECONDS = 120.0
"""How long a worker may take to start, or to load an edit."""
SEND_SECONDS = 5.0
"""How long a worker may take to read a message; one that takes longer is stuck."""
RECEIVE_SECONDS = 15.0
"""How long a worker may take to say that it has received an edit; one that takes longer is stuck, and is ended."""
COLLECT_SECONDS = 2.0
"""How long a worker may take to send its metrics; one that takes longer is left out."""
STOP_SECONDS = 20.0
"""How long a worker may take to drain. It is killed afterwards."""
RESTART_SECONDS = (0.1, 5.0)
"""The first and the longest pause before a worker is started again; the pause doubles."""
_logger = logging.getLogger(__name__)


class CannotServe(Exception):
    """A worker that did not start; the text says why."""


@dataclass(slots=True)
class _Process:
    """A worker that runs."""

    process: asyncio.subprocess.Process
    control: Control
    answers: asyncio.Queue[Loading | Ready] = field(default_factory=asyncio.Queue)
    collected: dict[int, asyncio.Future[list[Metric]]] = field(default_factory=dict)


class Supervisor:
    """Keeps a number of workers running on one address. They are other programs: gRPC never starts in this one.

    `checked` is the output of the check of the policy that they begin with.
    """

    def __init__(self, options: InstanceOptions, workers: int, checked: CheckedPolicy) -> None:
        self._reserved = _reserved(options.address)
        port = self._reserved.getsockname()[1]
        self.address = f"{options.address.rpartition(':')[0]}:{port}"
        self._options = replace(options, address=self.address, reuse_port=True)
        self._checked = checked
        self._rejected: RejectedEdit | None = None
        self._numbers = range(1, workers + 1)
        self._running: dict[int, _Process] = {}
        self._requests = 0
        self.restarts = 0
        """How often a worker was started again."""
        self._editing = asyncio.Lock()

    @property
    def running(self) -> int:
        """How many workers run."""
        return len(self._running)

    @property
    def is_editing(self) -> bool:
        """Whether an edit is being handed to the workers."""
        return self._editing.locked()

    @asynccontextmanager
    async def workers(self) -> AsyncIterator[None]:
        """Run the workers inside the context, and drain them at its end.

        Raises:
            AddressRefused: a worker cannot listen at the address.
        """
        keeping: list[asyncio.Task[None]] = []
        try:
            try:
                started = await asyncio.gather(*(self._start(number) for number in self._numbers))
            except CannotServe as error:
                raise AddressRefused(str(error)) from error
            keeping += (
                asyncio.create_task(self._keep(number, each))
                for number, each in zip(self._numbers, started, strict=True)
            )
            yield
        finally:
            for each in keeping:
                each.cancel()
            await asyncio.gather(*keeping, return_exceptions=True)
            await asyncio.gather(*map(_stopped, self._running.values()))
            self._reserved.close()

    async def _start(self, number: int) -> _Process:
        """Start a worker, and return it when it answers.

        Raises:
            CannotServe: it does not.
        """
        try:
            started = await _started()
        except OSError as error:
            reason = (error.strerror or "error").lower()
            raise CannotServe(f"worker {number} cannot be started: {reason}") from error
        start = Start(number, self._options, self._checked, self._rejected)
        try:
            async with asyncio.timeout(START_SECONDS):
                fault = await _answer(started.control, start)
                async with self._editing:
                    if not fault and self._checked is not start.checked:
                        # An edit was applied while the worker started.
                        fault = await _answer(started.control, Prepare(self._checked))
                        await started.control.send(Commit())
                    if self._rejected is not None and self._rejected is not start.rejected:
                        await started.control.send(Reject(self._rejected))
                    if not fault:
                        self._running[number] = started
        except (TimeoutError, EOFError, ConnectionError) as error:
            await _stopped(started)
            raise CannotServe(f"worker {number} did not start") from error
        if fault:
            await _stopped(started)
            raise CannotServe(fault)
        return started

    async def _keep(self, number: int, running: _Process) -> None:
        """Start a worker again whenever it has ended, for ever."""
        pause, longest = RESTART_SECONDS
        while True:
            began = asyncio.get_running_loop().time()
            await self._listen(running)
            self._running.pop(number, None)
            running.control.close()
            code = await running.process.wait()
            _logger.error("worker %d has ended with code %d, and is started again", number, code)
            if asyncio.get_running_loop().time() - began > longest:
                pause = RESTART_SECONDS[0]
            while True:
                await asyncio.sleep(pause)
                pause = min(2 * pause, longest)
                self.restarts += 1
                try:
                    running = await self._start(number)
                    break
                except CannotServe as error:
                    _logger.error("%s", error)  # noqa: TRY400  # the sentence says it all

    async def _listen(self, running: _Process) -> None:
        """Receive what a worker sends, until it ends."""
        with contextlib.suppress(EOFError, ConnectionError):
            while True:
                match await running.control.receive():
                    case Loading() | Ready() as answer:
                        running.answers.put_nowait(answer)
                    case Collected(request=request, metrics=metrics):
                        if (wanted := running.collected.pop(request, None)) is not None and not wanted.done():
                            wanted.set_result(metrics)
        running.answers.put_nowait(Ready(fault="it has ended"))

    async def accepted(self, checked: CheckedPolicy) -> None:
        """Hand an edit to all workers: each loads it, and then all decide by it."""
        revision = (await asyncio.to_thread(read, checked.bundle)).revision
        async with self._editing:
            every = dict(self._running)
            ready = await asyncio.gather(*(_prepared(each, checked) for each in every.values()))
            # A worker that is stuck, or cannot load what was checked, is started again, with the edit.
            for number, loaded in zip(every, ready, strict=True):
                if not loaded:
                    _logger.error("worker %d did not load the edit, and is started again", number)
                    with contextlib.suppress(ProcessLookupError):
                        every[number].process.kill()
            self._checked, self._rejected = checked, None
            for each, loaded in zip(every.values(), ready, strict=True):
                if loaded:
                    await _sent(each, Commit())
        words = "the edit of the policy is applied by %d workers: revision %s decides"
        _logger.info(words, sum(ready), revision, extra=fields(revision=revision))

    async def rejected(self, rejected: RejectedEdit) -> None:
        """Report an edit that is refused to all workers."""
        async with self._editing:
            self._rejected = rejected
            for each in list(self._running.values()):
                await _sent(each, Reject(rejected))

    async def collect(self) -> Mapping[int, list[Metric]]:
        """Return the metrics of each worker that answers in time."""
        every = dict(self._running)
        found = await asyncio.gather(*(self._collected(each) for each in every.values()))
        return {number: metrics for number, metrics in zip(every, found, strict=True) if metrics}

    async def _collected(self, running: _Process) -> list[Metric]:
        self._requests += 1
        request = self._requests
        wanted: asyncio.Future[list[Metric]] = asyncio.get_running_loop().create_future()
        running.collected[request] = wanted
        try:
            async with asyncio.timeout(COLLECT_SECONDS):
                await _sent(running, Collect(request))
                return await wanted
        except TimeoutError:
            return []
        finally:
            running.collected.pop(request, None)


async def _started() -> _Process:
    """Start a process that waits for what it is to serve.

    Raises:
        OSError: the system has no room for it.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", worker.__name__, str(theirs.fileno())),
                pass_fds=(theirs.fileno(),),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
            )
        except OSError:
            ours.close()
            raise
    return _Process(process, await Control.of(ours))


async def _answer(control: Control, message: object) -> str:
    """Send a message to a worker that starts, and return its fault, or nothing."""
    await control.send(message)
    while isinstance(answer := await control.receive(), Loading):
        continue
    assert isinstance(answer, Ready)
    return answer.fault


async def _prepared(running: _Process, checked: CheckedPolicy) -> bool:
    """Let a worker load an edit, and return whether it has. One that does not begin to is stuck."""
    while not running.answers.empty():
        running.answers.get_nowait()
    try:
        async with asyncio.timeout(RECEIVE_SECONDS):
            await running.control.send(Prepare(checked))
            answer = await running.answers.get()
        if isinstance(answer, Loading):
            async with asyncio.timeout(CHECK_SECONDS):
                answer = await running.answers.get()
    except (ConnectionError, TimeoutError):
        return False
    return isinstance(answer, Ready) and not answer.fault


async def _sent(running: _Process, message: object) -> None:
    """Send a message to a worker; one that has ended is started again elsewhere, and one that is stuck has a queue."""
    with contextlib.suppress(ConnectionError, TimeoutError):
        async with asyncio.timeout(SEND_SECONDS):
            await running.control.send(message)


async def _stopped(running: _Process) -> None:
    """Let a worker drain, and wait until it has ended."""
    running.control.close()
    try:
        async with asyncio.timeout(STOP_SECONDS):
            await running.process.wait()
    except TimeoutError:
        running.process.kill()
        await running.process.wait()


def _reserved(address: str) -> socket.socket:
    """Return a socket that holds the port of an address, and does not listen.

    Raises:
        AddressRefused: it cannot be bound.
    """
    host, _, port = address.rpartition(":")
    found = socket.getaddrinfo(host.removeprefix("[").removesuffix("]"), int(port), type=socket.SOCK_STREAM)
    family, kind, protocol, _, place = found[0]
    reserved = socket.socket(family, kind, protocol)
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        reserved.bind(place)
    except OSError as error:
        reserved.close()
        reason = os.strerror(error.errno or 0).lower()
        raise AddressRefused(f"`{address}` cannot be listened on: {reason}") from error
    return reserved
