"""Connections to a service, and which of its workers has each: the system chooses."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from time import perf_counter, sleep

import grpc

from bench.serving import Served
from callability.process.address import DIRECT

PATIENCE = 60.0
"""Seconds in which a connection or an answer comes."""
_OWN = (DIRECT, ("grpc.use_local_subchannel_pool", 1))
_TRIES = 64
"""Connections within which one reaches the other worker."""


def open_channel(server: Served) -> grpc.Channel:
    """Return a channel with a connection of its own."""
    return grpc.insecure_channel(server.address, _OWN)


@contextmanager
def channel_to_other(server: Served, workers: tuple[int, ...], busy: int) -> Iterator[grpc.Channel]:
    """Yield a channel whose connection is to another worker than the busy one; the system chooses for each."""
    for _ in range(_TRIES):
        before = sockets(workers)
        with open_channel(server) as channel:
            grpc.channel_ready_future(channel).result(timeout=PATIENCE)
            if grown(before, sockets(workers)) != busy:
                yield channel
                return
        _await_close(before, workers)
    raise RuntimeError(f"none of {_TRIES} connections reached another worker")


def _await_close(before: Mapping[int, int], workers: tuple[int, ...]) -> None:
    """Wait until the workers have as many sockets as before."""
    patience = perf_counter() + PATIENCE
    while sockets(workers) != before:
        if perf_counter() > patience:
            raise RuntimeError("a worker keeps a connection that was closed")
        sleep(0.01)


def worker_processes(server: Served) -> tuple[int, ...]:
    """Return the processes of the workers."""
    # Each is started by a thread.
    tasks = Path(f"/proc/{server.process}/task").glob("*/children")
    children = sorted((each for task in tasks for each in task.read_text().split()), key=int)
    return tuple(int(each) for each in children if b"service.worker" in Path(f"/proc/{each}/cmdline").read_bytes())


def other_worker(workers: tuple[int, ...], busy: int) -> int:
    """Return the worker that is not the busy one."""
    [found] = (worker for worker in workers if worker != busy)
    return found


def sockets(processes: tuple[int, ...]) -> Mapping[int, int]:
    """Return how many sockets each process has."""
    found = dict.fromkeys(processes, 0)
    for process in processes:
        for each in Path(f"/proc/{process}/fd").iterdir():
            with suppress(FileNotFoundError):
                found[process] += os.readlink(each).startswith("socket:")
    return found


def grown(before: Mapping[int, int], after: Mapping[int, int]) -> int:
    """Return the process that has got a connection."""
    [found] = (process for process in after if after[process] > before[process])
    return found
