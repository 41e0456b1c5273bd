"""What it takes to check a policy: the shipped one, and one whose facts have more than 100,000 combinations."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from bench.large import write_large
from bench.report import Aim, Aimed, Row
from bench.rounds import Figures, Rounds
from callability.policy.shipped import shipped_policy

PART = "checking"

_SHIPPED = "callability"
_LARGE = "bench.large"


def rows(rounds: Rounds) -> list[Row]:
    """Measure the time of `callability check`, with its start, and the memory of the largest process that it runs."""
    with TemporaryDirectory() as name:
        large = write_large(Path(name))
        subjects = {_SHIPPED: partial(_checked, _SHIPPED, shipped_policy()), _LARGE: partial(_checked, _LARGE, large)}
        measured = rounds.interleaved(PART, subjects)
    shipped, large_one = measured[_SHIPPED], measured[_LARGE]
    return [
        Row(PART, "`check` of the shipped policy", "s", shipped["s"], aim=Aim(1, Aimed.VALUE)),
        Row(PART, "the same, peak memory of a process", "MiB", shipped["MiB"]),
        Row(PART, "`check` of 122,472 combinations", "s", large_one["s"], aim=Aim(10, Aimed.VALUE)),
        Row(PART, "the same, peak memory of a process", "MiB", large_one["MiB"]),
    ]


def _checked(module: str, directory: Path) -> Figures:
    """Return seconds, and MiB that were resident at most.

    Raises:
        RuntimeError: the policy is refused.
    """
    command = [sys.executable, "-m", module, "check", str(directory)]
    started = perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    seconds = perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"`{module}` left with exit code {process.returncode}")
    # Linux: of the process itself and of those that it waited for, the engine's, the largest.
    return {"s": seconds, "MiB": used.ru_maxrss / 1024}
