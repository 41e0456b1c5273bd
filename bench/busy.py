"""What keeps a worker or the cores busy while something else is measured."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from bench.serving import Served
from bench.worker_connections import grown, sockets


class Batches:
    """A process that sends batches to a worker."""

    def __init__(self, process: subprocess.Popen[str], worker: int) -> None:
        self._process = process
        self.process = process.pid
        self.worker = worker

    @contextmanager
    def sent(self) -> Iterator[None]:
        """Send batches inside the context."""
        self._turn()
        try:
            yield
        finally:
            self._turn()

    def _turn(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        if self._process.stdout.readline() != "done\n":
            raise RuntimeError("the process that sends batches has ended")


class Computing:
    """Processes that take every core and ask nothing: how long others wait then is the machine's doing."""

    def __init__(self, processes: Sequence[subprocess.Popen[bytes]]) -> None:
        self._processes = processes

    @contextmanager
    def sent(self) -> Iterator[None]:
        """Compute inside the context."""
        self._send(signal.SIGCONT)
        try:
            yield
        finally:
            self._send(signal.SIGSTOP)

    def _send(self, number: signal.Signals) -> None:
        for process in self._processes:
            process.send_signal(number)


@contextmanager
def batch_caller(server: Served, tools: int, workers: tuple[int, ...] = ()) -> Iterator[Batches]:
    """Yield a process that can send batches of so many tools, connected to the service, or to one of its workers."""
    before = sockets(workers)
    command = [sys.executable, "-m", "bench.batch_caller", server.address, str(tools)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        if process.stdout.readline() != "connected\n":
            raise RuntimeError("the process that sends batches does not reach the service")
        try:
            yield Batches(process, grown(before, sockets(workers)) if workers else server.process)
        finally:
            process.communicate()


@contextmanager
def computing_processes(number: int) -> Iterator[Computing]:
    """Yield so many processes that can compute."""
    with ExitStack() as running:
        processes = []
        for _ in range(number):
            process = running.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            running.callback(process.kill)
            process.send_signal(signal.SIGSTOP)
            processes.append(process)
        yield Computing(processes)
