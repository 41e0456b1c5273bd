"""The resident memory of processes over time."""

from __future__ import annotations

import resource
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MIB = 1024 * 1024
_SAME_LOOK_SECONDS = 1.0
"""All processes that run are looked at within this time."""


@dataclass(frozen=True, slots=True)
class Growth:
    """The memory of a process in MiB: after it had warmed up, and at the end; `throughout` if it lived all the time."""

    name: str
    seconds: float
    before: float
    after: float
    throughout: bool

    @property
    def grown(self) -> float:
        """By how much it grew."""
        return self.after - self.before


class Memory:
    """Looks at the memory of processes. What a process takes in its first seconds does not count as growth."""

    def __init__(self, warm_seconds: float) -> None:
        self._warm = warm_seconds
        self._looks: defaultdict[tuple[str, int], list[tuple[float, float]]] = defaultdict(list)

    def look(self, name: str, process: int) -> None:
        """Note the memory of a process."""
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
        self._looks[name, process].append((time.monotonic(), pages * resource.getpagesize() / MIB))

    def growths(self) -> Iterator[Growth]:
        """Yield the growth of each process that lived for longer than it takes to warm up."""
        first = min(looks[0][0] for looks in self._looks.values())
        last = max(looks[-1][0] for looks in self._looks.values())
        for (name, _), looks in self._looks.items():
            warm = [each for each in looks if each[0] >= looks[0][0] + self._warm]
            if len(warm) > 1:
                throughout = looks[0][0] - first < _SAME_LOOK_SECONDS and last - looks[-1][0] < _SAME_LOOK_SECONDS
                yield Growth(name, looks[-1][0] - looks[0][0], warm[0][1], warm[-1][1], throughout)
