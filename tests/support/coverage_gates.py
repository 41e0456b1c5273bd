"""Compares the measured coverage of packages, by lines and branches, with their gates.

`python -m support.coverage_gates REPORT` reads what `coverage json` wrote; `make coverage` runs it. A gate is the
measured number, less half a point. Exit code 1: a package is below its gate.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

GATES = {"adapter": 97.7, "client": 96.4, "kernel": 96.8}
"""The least coverage of a package, in percent."""


def coverage_of(report: Path) -> dict[str, float]:
    """Return the covered part of each package, in percent of its lines and branches."""
    covered, every = Counter[str](), Counter[str]()
    for file, found in json.loads(report.read_text(encoding="utf-8"))["files"].items():
        parts = Path(file).parts
        package = parts[parts.index("callability") + 1]
        summary = found["summary"]
        covered[package] += summary["covered_lines"] + summary["covered_branches"]
        every[package] += summary["num_statements"] + summary["num_branches"]
    return {package: 100 * covered[package] / number for package, number in sorted(every.items()) if number}


def main(report: str) -> int:
    """Print the coverage of each package, and return whether one with a gate is below it."""
    measured = coverage_of(Path(report))
    for package, percent in measured.items():
        gate = GATES.get(package)
        print(f"{package:10} {percent:5.1f} %" + (f", at least {gate:g} %" if gate else ""))
    return int(any(measured[package] < gate for package, gate in GATES.items()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
