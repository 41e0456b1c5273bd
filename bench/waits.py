"""How long calls take while something else keeps a worker or the cores busy."""

from __future__ import annotations

import os
from collections.abc import Sequence, Set
from contextlib import suppress
from itertools import chain, cycle
from pathlib import Path
from statistics import quantiles
from time import perf_counter, sleep

import grpc

from bench import python_client
from bench.busy import Batches, Computing
from bench.rounds import Figures
from bench.worker_connections import PATIENCE

PATH = "/callability.v1.CallabilityService/CheckTool"
_PAUSE = 0.001


def waits(channel: grpc.Channel, request: bytes, batches: Batches | Computing, calls: int) -> Figures:
    """Return the p99 of calls without batches and beside them, in ms."""
    quiet = _p99(channel, request, calls)
    with batches.sent():
        return {"quiet": quiet, "busy": _p99(channel, request, calls)}


def waits_apart(
    groups: Sequence[Sequence[int]], channel: grpc.Channel, request: bytes, batches: Batches, calls: int
) -> Figures:
    """Return the same, with each group of processes on a core of its own, as far as there are cores."""
    cores = os.sched_getaffinity(0)
    for group, core in zip(groups, cycle(cores)):
        for process in group:
            _pin(process, {core})
    try:
        return waits(channel, request, batches, calls)
    finally:
        for process in chain(*groups):
            _pin(process, cores)


def _pin(process: int, cores: Set[int]) -> None:
    """Let all threads of a process run on these cores alone."""
    for thread in Path(f"/proc/{process}/task").iterdir():
        with suppress(ProcessLookupError):
            os.sched_setaffinity(int(thread.name), cores)


def _p99(channel: grpc.Channel, request: bytes, calls: int) -> float:
    call = python_client.as_bytes(channel, PATH)
    taken = []
    for _ in range(calls):
        sleep(_PAUSE)
        started = perf_counter()
        call(request, timeout=PATIENCE)
        taken.append(perf_counter() - started)
    return 1e3 * quantiles(taken, n=100, method="inclusive")[98]
