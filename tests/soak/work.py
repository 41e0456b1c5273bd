"""What a process of callers does: whom it calls, what it asks, and the outcome of each call."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from struct import Struct
from threading import Lock

import grpc

from callability.client import Credentials
from soak.reference import Questions

ATTEMPT_SECONDS = 4.0
"""The deadline of an attempt: less than a replica is stopped for, so that its calls go to another."""
BATCH_SECONDS = 10.0
"""The deadline of an attempt of a large batch, which takes seconds if the processors are busy."""
CALLERS = 16
BATCH_CALLERS = 2
WATCHERS = 4
RAW_CALLERS = 4
_ITEM = Struct("<ddB")
_EXAMPLES = 5


class Outcome(StrEnum):
    """The outcome of a call."""

    CORRECT = "correct"
    WRONG = "wrong"
    LOST = "lost"


_NUMBERS = tuple(Outcome)


class Series(StrEnum):
    """The kinds of calls."""

    SINGLE = "CheckTool"
    BATCH = "CheckTools with 10,000 tools"
    WATCHED = "decisions of watching clients"
    RAW = "CheckTool without retries"


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a process: the addresses of its callers, and where they write the outcome of each call."""

    route: str
    addresses: tuple[str, ...]
    authority: bytes
    token: str
    questions: Questions
    results: Path

    @property
    def credentials(self) -> Credentials:
        """Those of the clients."""
        return Credentials(channel=grpc.ssl_channel_credentials(self.authority), token=self.token)

    def write(self, path: Path) -> None:
        """Write it for the process."""
        path.write_bytes(pickle.dumps(self))

    @classmethod
    def read(cls, path: Path) -> Work:
        """Read what was written."""
        work = pickle.loads(path.read_bytes())
        assert isinstance(work, cls)
        return work


@dataclass(frozen=True, slots=True)
class Sample:
    """A call: when it began, in seconds of the monotonic clock, how long it took, and its outcome."""

    began: float
    seconds: float
    outcome: Outcome


class Recorder:
    """Writes the outcome of each call to a file, so that the memory of the process does not grow by the calls."""

    def __init__(self, results: Path, series: Series) -> None:
        self._file = (results / series.name).open("wb")
        self._lock = Lock()
        self._first: list[str] = []

    def add(self, began: float, outcome: Outcome, what: str = "", ended: float | None = None) -> None:
        """Note a call that has ended, now or then; `what` is wrong with it, or why it is lost."""
        ended = time.monotonic() if ended is None else ended
        with self._lock:
            self._file.write(_ITEM.pack(began, ended - began, _NUMBERS.index(outcome)))
            if what and len(self._first) < _EXAMPLES:
                self._first.append(f"{outcome} after {ended - began:.2f} s: {what}")

    def close(self) -> Sequence[str]:
        """Write everything, and return what was wrong with the first calls that were not correct."""
        self._file.close()
        return self._first


def samples(results: Path, series: Series) -> Iterator[Sample]:
    """Yield the calls of a series."""
    for began, seconds, outcome in _ITEM.iter_unpack((results / series.name).read_bytes()):
        yield Sample(began, seconds, _NUMBERS[outcome])
