"""Measures what `make unit`, `make test` and `.ci/run` cost, and records it in `tests/cpu_baseline.json`.

`make cpu` runs it; `make cpu CPU=ci` measures `.ci/run`, with each of its parts.

CPU is that of all processes; it depends on the machine and on what else runs there, so measure on an idle one.
"""

from __future__ import annotations

import json
import os
import platform
import re
import resource
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

from support.checkout import ROOT, TESTS

RECORDED = TESTS / "cpu_baseline.json"
TARGETS = ("unit", "test")
"""What is measured unless arguments name others."""
CI = "ci"


def passed(output: str) -> int:
    """Return how many tests passed, as the last line of pytest that counts them says."""
    return int(re.findall(r"\b(\d+) passed\b", output)[-1])


def cost(tests: int, cpu: float, wall: float) -> dict[str, float]:
    """Return what is recorded of a run; times are in seconds."""
    return {
        "tests": tests,
        "cpu_seconds": round(cpu),
        "wall_seconds": round(wall),
        "cpu_seconds_per_test": round(cpu / tests, 3),
    }


def parts(output: str) -> dict[str, dict[str, float]]:
    """Return the cost of each part of `.ci/run`, by its targets, as its output says."""
    found = re.findall(r"^make (.*): ([\d.]+) s, CPU ([\d.]+) s and ([\d.]+) s in the kernel$", output, re.MULTILINE)
    return {
        " ".join(re.findall(r"(?<!\S)[a-z./]+(?!\S)", words)): {
            "cpu_seconds": round(float(user) + float(kernel)),
            "wall_seconds": round(float(wall)),
        }
        for words, wall, user, kernel in found
    }


def _measured(target: str) -> dict[str, Any]:
    command = [".ci/run"] if target == CI else ["make", target]
    before, started = _cpu_of_children(), time.monotonic()
    done = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False
    )
    wall, cpu = time.monotonic() - started, _cpu_of_children() - before
    print(done.stdout, end="")
    if done.returncode:
        sys.exit(f"`{' '.join(command)}` failed: nothing is recorded")
    if target == CI:
        return {"cpu_seconds": round(cpu), "wall_seconds": round(wall), "parts": parts(done.stdout)}
    return cost(passed(done.stdout), cpu, wall)


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main(targets: list[str]) -> None:
    """Measure targets of the Makefile, and record them; others keep what is recorded."""
    # What is set up first is no part of the tests.
    subprocess.run(["make", "setup"], cwd=ROOT, check=True)
    recorded: Mapping[str, object] = json.loads(RECORDED.read_text(encoding="utf-8")) if RECORDED.exists() else {}
    machine = {"cores": len(os.sched_getaffinity(0)), "python": platform.python_version()}
    costs = {target: {**_measured(target), **machine} for target in targets or TARGETS}
    RECORDED.write_text(json.dumps({**recorded, **costs}, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(costs, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
