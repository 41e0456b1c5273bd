"""Commands that are measured: their seconds, and the memory of the largest process that they ran."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

_LAUNCH = """
import json, resource, subprocess, sys, time
started = time.perf_counter()
code = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
seconds = time.perf_counter() - started
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([code, seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))
"""
"""A small process that starts what is measured: a process counts the memory of the one that started it as its own."""


@dataclass(frozen=True, slots=True)
class Launched:
    """How a command ended: its exit code, its seconds, its CPU seconds, and the most MiB of one of its processes."""

    code: int
    seconds: float
    cpu_seconds: float
    mebibytes: float


def launched(module: str, arguments: Sequence[str]) -> Launched:
    """Run a module of Python to its end."""
    command = [sys.executable, "-S", "-c", _LAUNCH, sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return Launched(*json.loads(done.stdout))
