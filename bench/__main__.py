"""`python -m bench`: measures what decisions cost, and prints it beside what is aimed at."""

from __future__ import annotations

import gc
import json
import os
import platform
import signal
import sys
import time
import traceback
from collections.abc import Mapping
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import grpc
import typer
from rich.console import Console

from bench import h2load, python_client
from bench.report import Row, as_json, table
from bench.rounds import Rounds

_ENOUGH = 15
_QUICK = 1
_WIDTH = 160


class Part(StrEnum):
    """What can be measured, each by the module of its name."""

    LOOK_UP = "look-up"
    CHECK_TOOL = "check-tool"
    CHECK_TOOLS = "check-tools"
    DISCOVERY = "discovery"
    SCOPE = "scope"
    ISOLATION = "isolation"
    EDITS = "edits"
    CHECKING = "checking"
    COLUMNS = "columns"
    COLUMN_MEMORY = "column-memory"
    BUNDLE = "bundle"
    WORKERS = "workers"
    TELEMETRY = "telemetry"
    RECORDS = "records"


def bench(
    rounds: Annotated[int | None, typer.Option(help=f"How many rounds, {_ENOUGH} or more.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Run one small round, to see that it works: no result.")
    ] = False,
    only: Annotated[list[Part] | None, typer.Option(help="A part to measure; may be given again.")] = None,
    to: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write every value as JSON too.")] = None,
) -> None:
    """Measure in interleaved rounds, and print medians, quartiles, and ratios round by round.

    A missed aim is printed as missed. Exit code 0: everything was measured. 1: something failed to run. 2: a wrong
    call.
    """
    if not quick and (rounds or _ENOUGH) < _ENOUGH:
        raise typer.BadParameter(f"fewer than {_ENOUGH} rounds are no result: say --quick", param_hint="--rounds")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    started, load_before = time.monotonic(), os.getloadavg()[0]
    count = _QUICK if quick else rounds or _ENOUGH
    measured, failed = _measure(only or list(Part), Rounds(count, _print_progress, quick))
    machine = _machine() | {
        "rounds": count,
        "result": not quick,
        "load_average": [load_before, os.getloadavg()[0]],
        "seconds": round(time.monotonic() - started),
    }
    console = Console(width=_WIDTH) if not sys.stdout.isatty() else Console()
    console.print(table(measured, "No result, only to see that it runs" if quick else "What decisions cost"))
    console.print(_said_below(machine), highlight=False)
    if to:
        to.write_text(json.dumps({"machine": machine, "failed": failed, "rows": as_json(measured)}, indent=2) + "\n")
    raise typer.Exit(1 if failed else 0)


def _measure(parts: list[Part], rounds: Rounds) -> tuple[list[Row], list[str]]:
    rows: list[Row] = []
    failed: list[str] = []
    for part in parts:
        # The collector of Python walks through what is left of earlier parts, for a tenth of a second, in some rounds.
        gc.collect()
        gc.freeze()
        try:
            rows += import_module(f"bench.{part.replace('-', '_')}").rows(rounds)
        except Exception:  # whatever it was, the other parts are measured
            traceback.print_exc()
            failed.append(part)
            _print_progress(f"{part}: failed")
    return rows, failed


def _print_progress(progress: str) -> None:
    print(progress, file=sys.stderr, flush=True)


def _machine() -> dict[str, Any]:
    return {
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "grpcio": grpc.__version__,
        "load_generator": h2load.NAME if h2load.installed() else python_client.NAME,
    }


def _said_below(machine: Mapping[str, Any]) -> str:
    by = (
        "Load by h2load."
        if h2load.installed()
        else "Without h2load (Debian's nghttp2-client) the load comes from a Python client, which takes as much CPU as"
        " the server: throughput is held back by it, and the aim is about server CPU."
    )
    how = "{rounds} interleaved rounds after one for warming up".format(**machine)
    if not machine["result"]:
        how = "One small round"
    return (
        "{how}, in {seconds} s; ratios are taken within a round."
        " {cores} cores, load average {load_average[0]:.1f} before and {load_average[1]:.1f} after;"
        " Python {python}, grpcio {grpcio}. ".format(**machine, how=how)
        + by
    )


if __name__ == "__main__":
    typer.run(bench)
