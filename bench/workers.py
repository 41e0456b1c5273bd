"""Two workers beside one: what a call costs, and how long other callers wait while batches keep a worker busy."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import chain, cycle, islice
from pathlib import Path
from statistics import quantiles
from time import perf_counter, sleep

import grpc

from bench import h2load, python_client
from bench.report import Aim, Row
from bench.rounds import Figures, Rounds
from bench.serving import EMPTY, SERVICE, Served, served
from bench.workload import about_one_each
from callability.address import DIRECT

PART = "workers"

_PATH = "/callability.v1.CallabilityService/CheckTool"
_CONNECTIONS = 4
_STREAMS = 4
_CALLS = 2_000
_WAITED = 1_000
"""Calls of the other caller in a round, quiet and beside batches."""
_PAUSE = 0.001
_TOOLS = 10_000
_LEGAL = 20_000
"""The tools that a batch may have."""
_TRIES = 64
"""Connections within which one reaches the other worker."""
_PATIENCE = 60.0
_OWN = (DIRECT, ("grpc.use_local_subchannel_pool", 1))
_GENERATOR = h2load if h2load.installed() else python_client


def rows(rounds: Rounds) -> list[Row]:
    """Measure both, with one worker and with two."""
    with served(SERVICE) as one, served(SERVICE, "--workers", "2") as two, served(EMPTY) as empty:
        question = _question(one)
        calls = rounds.repetitions(_CALLS)
        waited = max(100, rounds.repetitions(_WAITED))
        processes = {1: (one.process,), 2: _workers(two)}
        with (
            _batches(one, _TOOLS) as beside,
            _batches(one, _LEGAL) as legal,
            _batches(two, _TOOLS, processes[2]) as other,
            _batches(empty, _TOOLS) as unread,
            _batches(empty, _LEGAL) as legal_unread,
            _channel(one) as one_channel,
            _channel_to(two, processes[2], other.worker) as two_channel,
            _channel(empty) as empty_channel,
            _computing(os.cpu_count() or 1) as computing,
            _computing(1) as one_computing,
        ):
            apart = (other.worker, other.process), (_other(processes[2], other.worker), os.getpid())
            subjects: dict[str, Callable[[], Figures]] = {
                "cpu 1": partial(_cpu, one, processes[1], question, calls),
                "cpu 2": partial(_cpu, two, processes[2], question, calls),
                "cpu beside": partial(_cpu_beside, one_computing, one, processes[1], question, calls),
                "one": partial(_waits, one_channel, question[0], beside, waited),
                "legal": partial(_waits, one_channel, question[0], legal, waited),
                "apart": partial(_waits_apart, apart, two_channel, question[0], other, waited),
                "two": partial(_waits, two_channel, question[0], other, waited),
                "empty": partial(_waits, empty_channel, question[0], unread, waited),
                "empty legal": partial(_waits, empty_channel, question[0], legal_unread, waited),
                "computing": partial(_waits, one_channel, question[0], computing, waited),
            }
            measured = rounds.interleaved(PART, subjects)
    cpu = {name: measured[f"cpu {name}"]["cpu"] for name in (1, 2, "beside")}
    load = f"at {_CONNECTIONS * _STREAMS} in flight by {_GENERATOR.NAME}"
    found = [
        Row(PART, f"CheckTool, one worker, server CPU {load}", "µs a call", cpu[1]),
        Row(PART, f"CheckTool, two workers, server CPU {load}", "µs a call", cpu[2], against=cpu[1], aim=Aim(1.1)),
        # Two workers and their callers keep both cores busy. So does this, and what it adds is the machine's doing.
        Row(
            PART, "the same, one worker beside a process that only computes", "µs a call", cpu["beside"], against=cpu[1]
        ),
    ]
    for name, where, aim in (
        ("apart", f"{_TOOLS:,} tools on the other of two workers, which has a core of its own with their caller", 1.5),
        ("two", f"{_TOOLS:,} tools on the other of two workers", 1.5),
        ("one", f"{_TOOLS:,} tools on the only worker", 3),
        ("legal", f"{_LEGAL:,} tools on the only worker", 3),
    ):
        quiet, busy = measured[name]["quiet"], measured[name]["busy"]
        found.append(Row(PART, f"CheckTool, p99 without batches of {where}", "ms", quiet))
        found.append(Row(PART, f"CheckTool, p99 beside batches of {where}", "ms", busy, against=quiet, aim=Aim(aim)))
    # What gRPC takes by itself, and what the machine does where more processes are busy than it has cores.
    for name, what in (
        ("empty", f"batches of {_TOOLS:,} tools on the only worker, with empty handlers"),
        ("empty legal", f"batches of {_LEGAL:,} tools on the only worker, with empty handlers"),
        ("computing", f"{os.cpu_count()} processes that only compute and ask nothing"),
    ):
        quiet, busy = measured[name]["quiet"], measured[name]["busy"]
        found.append(Row(PART, f"CheckTool, p99 beside {what}", "ms", busy, against=quiet))
    return found


class _Batches:
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


class _Computing:
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
def _computing(number: int) -> Iterator[_Computing]:
    with ExitStack() as running:
        processes = []
        for _ in range(number):
            process = running.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            running.callback(process.kill)
            process.send_signal(signal.SIGSTOP)
            processes.append(process)
        yield _Computing(processes)


@contextmanager
def _batches(server: Served, tools: int, workers: tuple[int, ...] = ()) -> Iterator[_Batches]:
    before = _sockets(workers)
    command = [sys.executable, "-m", "bench.batch_caller", server.address, str(tools)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        if process.stdout.readline() != "connected\n":
            raise RuntimeError("the process that sends batches does not reach the service")
        try:
            yield _Batches(process, _grown(before, _sockets(workers)) if workers else server.process)
        finally:
            process.communicate()


def _question(server: Served) -> tuple[bytes, bytes]:
    """Return a request, and its reply."""
    [request] = (each.SerializeToString() for each in islice(about_one_each(10), 1))
    with _channel(server) as channel:
        return request, python_client.as_bytes(channel, _PATH)(request)


def _channel(server: Served) -> grpc.Channel:
    return grpc.insecure_channel(server.address, _OWN)


@contextmanager
def _channel_to(server: Served, workers: tuple[int, ...], busy: int) -> Iterator[grpc.Channel]:
    """Yield a channel whose connection is to another worker than the busy one; the system chooses for each."""
    for _ in range(_TRIES):
        before = _sockets(workers)
        with _channel(server) as channel:
            grpc.channel_ready_future(channel).result(timeout=_PATIENCE)
            if _grown(before, _sockets(workers)) != busy:
                yield channel
                return
        _await_close(before, workers)
    raise RuntimeError(f"none of {_TRIES} connections reached another worker")


def _await_close(before: Mapping[int, int], workers: tuple[int, ...]) -> None:
    """Wait until the workers have as many sockets as before."""
    patience = perf_counter() + _PATIENCE
    while _sockets(workers) != before:
        if perf_counter() > patience:
            raise RuntimeError("a worker keeps a connection that was closed")
        sleep(0.01)


def _workers(server: Served) -> tuple[int, ...]:
    """Return the processes of the workers."""
    children = Path(f"/proc/{server.process}/task/{server.process}/children").read_text().split()
    return tuple(int(each) for each in children if b"service.worker" in Path(f"/proc/{each}/cmdline").read_bytes())


def _other(workers: tuple[int, ...], busy: int) -> int:
    """Return the worker that is not the busy one."""
    [found] = (worker for worker in workers if worker != busy)
    return found


def _sockets(processes: tuple[int, ...]) -> Mapping[int, int]:
    """Return how many sockets each process has."""
    found = dict.fromkeys(processes, 0)
    for process in processes:
        for each in Path(f"/proc/{process}/fd").iterdir():
            with suppress(FileNotFoundError):
                found[process] += os.readlink(each).startswith("socket:")
    return found


def _grown(before: Mapping[int, int], after: Mapping[int, int]) -> int:
    """Return the process that has got a connection."""
    [found] = (process for process in after if after[process] > before[process])
    return found


def _cpu(server: Served, processes: tuple[int, ...], question: tuple[bytes, bytes], calls: int) -> Figures:
    """Return what the processes that answer spend on a call, in µs."""
    answering = [Served(server.address, process) for process in processes]
    before = sum(each.cpu_seconds() for each in answering)
    request, reply = question
    _GENERATOR.calls_per_second(
        server.address, _PATH, request, reply, calls=calls, connections=_CONNECTIONS, streams=_STREAMS
    )
    return {"cpu": 1e6 * (sum(each.cpu_seconds() for each in answering) - before) / calls}


def _cpu_beside(
    computing: _Computing, server: Served, processes: tuple[int, ...], question: tuple[bytes, bytes], calls: int
) -> Figures:
    """Return the same while another process computes."""
    with computing.sent():
        return _cpu(server, processes, question, calls)


def _waits(channel: grpc.Channel, request: bytes, batches: _Batches | _Computing, calls: int) -> Figures:
    """Return the p99 of calls without batches and beside them, in ms."""
    quiet = _p99(channel, request, calls)
    with batches.sent():
        return {"quiet": quiet, "busy": _p99(channel, request, calls)}


def _waits_apart(
    groups: Sequence[Sequence[int]], channel: grpc.Channel, request: bytes, batches: _Batches, calls: int
) -> Figures:
    """Return the same, with each group of processes on a core of its own, as far as there are cores."""
    cores = os.sched_getaffinity(0)
    for group, core in zip(groups, cycle(cores)):
        for process in group:
            _pin(process, {core})
    try:
        return _waits(channel, request, batches, calls)
    finally:
        for process in chain(*groups):
            _pin(process, cores)


def _pin(process: int, cores: Set[int]) -> None:
    """Let all threads of a process run on these cores alone."""
    for thread in Path(f"/proc/{process}/task").iterdir():
        with suppress(ProcessLookupError):
            os.sched_setaffinity(int(thread.name), cores)


def _p99(channel: grpc.Channel, request: bytes, calls: int) -> float:
    call = python_client.as_bytes(channel, _PATH)
    taken = []
    for _ in range(calls):
        sleep(_PAUSE)
        started = perf_counter()
        call(request, timeout=_PATIENCE)
        taken.append(perf_counter() - started)
    return 1e3 * quantiles(taken, n=100, method="inclusive")[98]
