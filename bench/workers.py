"""Two workers beside one: what a call costs, and how long other callers wait while batches keep a worker busy."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from itertools import islice

from bench import h2load, python_client
from bench.busy import Computing, batch_caller, computing_processes
from bench.report import Aim, Row
from bench.rounds import Figures, Rounds, Series
from bench.serving import EMPTY, SERVICE, Served, served
from bench.waits import PATH, waits, waits_apart
from bench.worker_connections import channel_to_other, open_channel, other_worker, worker_processes
from bench.workload import about_one_each

PART = "workers"

_CONNECTIONS = 4
_STREAMS = 4
_CALLS = 2_000
_WAITED = 1_000
"""Calls of the other caller in a round, quiet and beside batches."""
_TOOLS = 10_000
_LEGAL = 20_000
"""The tools that a batch may have."""
_GENERATOR = h2load if h2load.installed() else python_client


def rows(rounds: Rounds) -> list[Row]:
    """Measure both, with one worker and with two."""
    measured = _measured(rounds)
    return [*_cpu_rows(measured), *_waits_rows(measured)]


def _measured(rounds: Rounds) -> Mapping[str, Series]:
    with served(SERVICE) as one, served(SERVICE, "--workers", "2") as two, served(EMPTY) as empty:
        question = _question(one)
        calls = rounds.repetitions(_CALLS)
        waited = max(100, rounds.repetitions(_WAITED))
        processes = {1: (one.process,), 2: worker_processes(two)}
        with (
            batch_caller(one, _TOOLS) as beside,
            batch_caller(one, _LEGAL) as legal,
            batch_caller(two, _TOOLS, processes[2]) as other,
            batch_caller(empty, _TOOLS) as unread,
            batch_caller(empty, _LEGAL) as legal_unread,
            open_channel(one) as one_channel,
            channel_to_other(two, processes[2], other.worker) as two_channel,
            open_channel(empty) as empty_channel,
            computing_processes(os.cpu_count() or 1) as computing,
            computing_processes(1) as one_computing,
        ):
            apart = (other.worker, other.process), (other_worker(processes[2], other.worker), os.getpid())
            subjects: dict[str, Callable[[], Figures]] = {
                "cpu 1": partial(_cpu, one, processes[1], question, calls),
                "cpu 2": partial(_cpu, two, processes[2], question, calls),
                "cpu beside": partial(_cpu_beside, one_computing, one, processes[1], question, calls),
                "one": partial(waits, one_channel, question[0], beside, waited),
                "legal": partial(waits, one_channel, question[0], legal, waited),
                "apart": partial(waits_apart, apart, two_channel, question[0], other, waited),
                "two": partial(waits, two_channel, question[0], other, waited),
                "empty": partial(waits, empty_channel, question[0], unread, waited),
                "empty legal": partial(waits, empty_channel, question[0], legal_unread, waited),
                "computing": partial(waits, one_channel, question[0], computing, waited),
            }
            return rounds.interleaved(PART, subjects)


def _cpu_rows(measured: Mapping[str, Series]) -> list[Row]:
    cpu = {name: measured[f"cpu {name}"]["cpu"] for name in (1, 2, "beside")}
    load = f"at {_CONNECTIONS * _STREAMS} in flight by {_GENERATOR.NAME}"
    return [
        Row(PART, f"CheckTool, one worker, server CPU {load}", "µs a call", cpu[1]),
        Row(PART, f"CheckTool, two workers, server CPU {load}", "µs a call", cpu[2], against=cpu[1], aim=Aim(1.1)),
        # Two workers and their callers keep both cores busy. So does this, and what it adds is the machine's doing.
        Row(
            PART, "the same, one worker beside a process that only computes", "µs a call", cpu["beside"], against=cpu[1]
        ),
    ]


def _waits_rows(measured: Mapping[str, Series]) -> list[Row]:
    found = []
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


def _question(server: Served) -> tuple[bytes, bytes]:
    """Return a request, and its reply."""
    [request] = (each.SerializeToString() for each in islice(about_one_each(10), 1))
    with open_channel(server) as channel:
        return request, python_client.as_bytes(channel, PATH)(request)


def _cpu(server: Served, processes: tuple[int, ...], question: tuple[bytes, bytes], calls: int) -> Figures:
    """Return what the processes that answer spend on a call, in µs."""
    answering = [Served(server.address, process) for process in processes]
    before = sum(each.cpu_seconds() for each in answering)
    request, reply = question
    _GENERATOR.calls_per_second(
        server.address, PATH, request, reply, calls=calls, connections=_CONNECTIONS, streams=_STREAMS
    )
    return {"cpu": 1e6 * (sum(each.cpu_seconds() for each in answering) - before) / calls}


def _cpu_beside(
    computing: Computing, server: Served, processes: tuple[int, ...], question: tuple[bytes, bytes], calls: int
) -> Figures:
    """Return the same while another process computes."""
    with computing.sent():
        return _cpu(server, processes, question, calls)
