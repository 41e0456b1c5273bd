"""The server processes that are measured. They end with the block that started them, and with this process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

SERVICE = "callability"
EMPTY = "bench.empty"
_PATIENCE = 30.0


@dataclass(frozen=True, slots=True)
class Served:
    """A server process that listens."""

    address: str
    process: int

    def cpu_seconds(self) -> float:
        """Return the CPU time of all threads of the process so far, which is read from outside and disturbs nothing."""
        # Linux: the clock of a process by its id, as clock_getcpuclockid(3) makes it; to the nanosecond.
        return time.clock_gettime((~self.process << 3) | 2)


@contextmanager
def served(
    module: str, *arguments: str, variables: Mapping[str, str] | None = None, quiet: bool = False
) -> Iterator[Served]:
    """Run a module that serves as `callability serve` does, on a free port of 127.0.0.1, and yield where it listens.

    `variables` are added to its environment. With `quiet`, what it logs is thrown away.

    Raises:
        RuntimeError: it does not listen.
    """
    command = [sys.executable, "-m", module, "serve", "--address", "127.0.0.1:0", "--log-level", "warning", *arguments]
    guard = shutil.which("setpriv")
    if guard:  # it becomes the server, which then ends even when this process is killed
        command = [guard, "--pdeathsig", "TERM", *command]
    environment = os.environ | (variables or {})
    log = subprocess.DEVNULL if quiet else None
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=environment, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line.startswith("listening on "):
                raise RuntimeError(f"`{module}` does not listen: it said {line!r}")
            yield Served(line.removeprefix("listening on ").strip(), process.pid)
        finally:
            process.terminate()
            try:
                process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
