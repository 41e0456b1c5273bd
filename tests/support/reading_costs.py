"""What both readers make of bundles: the codes for which they refuse them, and what reading them costs.

`PYTHONPATH=tests python -m support.reading_costs --parts 100000` prints memory and time a byte of sparse bundles.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from callability.kernel.envelope import BundleRefused
from callability.kernel.policy import read
from support.checkout import ROOT, VECTORS
from support.sparse_bundles import sparse_bundles

ACCEPTED = "accepted"
_NO_MORE = 7
"""The exit code of a process that finds no bundle."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The code for which a bundle was refused, or `ACCEPTED`, and what reading it cost: bytes and seconds."""

    code: str
    memory: int
    seconds: float
    why: str


def built_reader(directory: Path) -> Path:
    """Build the program in Go that reads bundles.

    Raises:
        CalledProcessError: it cannot be built; `stderr` says why.
    """
    program = directory / "readbundles"
    command = ["go", "build", "-o", str(program), "./internal/readbundles"]
    subprocess.run(command, cwd=ROOT / "clients/go", check=True, capture_output=True, text=True)
    return program


def read_by_go(program: Path, bundles: Iterable[bytes]) -> list[Reading]:
    """Read bundles in Go; the memory of each is all that is allocated meanwhile."""
    done = subprocess.run([program], input=_framed(bundles), capture_output=True, timeout=1200, check=True)
    lines = [line.split(" ", 3) for line in done.stdout.decode().splitlines()]
    return [Reading(code, int(memory), int(took) / 1e9, why) for code, memory, took, why in lines]


def code_of(bundle: bytes) -> str:
    """Read a bundle in this process."""
    try:
        read(bundle)
    except BundleRefused as refused:
        return refused.code
    return ACCEPTED


def read_by_python(bundles: Iterable[bytes]) -> list[Reading]:
    """Read bundles in Python, each in a process of its own; the memory of each is by how much its peak grows."""
    command = [sys.executable, "-m", __spec__.name, "--stdin"]
    sent = _framed(bundles)
    done = subprocess.run(command, input=sent, cwd=ROOT / "tests", capture_output=True, timeout=1200, check=True)
    lines = [line.split() for line in done.stdout.decode().splitlines()]
    return [Reading(code, int(memory), float(seconds), "") for code, memory, seconds in lines]


def _framed(bundles: Iterable[bytes]) -> bytes:
    return b"".join(len(each).to_bytes(4, "big") + each for each in bundles)


def _peak() -> int:
    """Return the largest size that the process had, in bytes."""
    [line] = [each for each in Path("/proc/self/status").read_text().splitlines() if each.startswith("VmHWM")]
    return int(line.split()[1]) * 1024


def _report_each() -> None:
    """Read the bundles of standard input, each in a fork that takes it from there: this process holds none of them."""
    # What every reader needs is there before it is measured.
    read((VECTORS / "bundles/small.bundle").read_bytes())
    ended = 0
    while not ended:
        if child := os.fork():
            ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        else:
            os._exit(_report_next())
    sys.exit(0 if ended == _NO_MORE else 1)


def _report_next() -> int:
    """Return the exit code of a process for the next bundle."""
    if not (length := _received(4)):
        return _NO_MORE
    bundle = _received(int.from_bytes(length, "big"))
    before, started = _peak(), time.process_time()
    code = code_of(bundle)
    print(code, _peak() - before, time.process_time() - started, flush=True)
    return 0


def _received(size: int) -> bytes:
    """Read so many bytes from standard input and no more, which are for the next process."""
    received = bytearray()
    while len(received) < size and (more := os.read(0, size - len(received))):
        received += more
    return bytes(received)


def main() -> None:
    """Print what each byte of sparse bundles costs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", type=int, default=100_000, help="of each bundle")
    parser.add_argument("--stdin", action="store_true", help="read the bundles of standard input in Python, and report")
    arguments = parser.parse_args()
    if arguments.stdin:
        _report_each()
        return
    with TemporaryDirectory() as directory:
        program = built_reader(Path(directory))
        for name, bundle in sparse_bundles(arguments.parts):
            readings = {"Go": read_by_go(program, [bundle])[0], "Python": read_by_python([bundle])[0]}
            costs = [
                f"{language} {each.memory / len(bundle):5.1f} B {each.seconds / len(bundle) * 1e9:5.0f} ns, {each.code}"
                for language, each in readings.items()
            ]
            print(f"{name:30} {len(bundle):10,} B; a byte costs {'; '.join(costs)}", flush=True)


if __name__ == "__main__":
    main()
