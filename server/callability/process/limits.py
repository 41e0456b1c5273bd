"""The limits that a child process sets for itself, because it may outlive the process that started it."""

from __future__ import annotations

import resource

MAX_MEMORY = 4 * 1024**3
"""Bytes of address space of a child process."""


def limit_this_process(cpu_seconds: int | None = None) -> None:
    """Limit the memory of this process and of those that it starts, and the processor time of each if that is given.

    At its limit of processor time SIGXCPU ends a process, and SIGKILL a second later.
    """
    _limit(resource.RLIMIT_AS, MAX_MEMORY, MAX_MEMORY)
    if cpu_seconds is not None:
        _limit(resource.RLIMIT_CPU, cpu_seconds, cpu_seconds + 1)


def _limit(kind: int, soft: int, hard: int) -> None:
    """Set a limit, unless the one that is inherited is lower."""
    _, most = resource.getrlimit(kind)
    if most != resource.RLIM_INFINITY:
        soft, hard = min(soft, most), min(hard, most)
    resource.setrlimit(kind, (soft, hard))
