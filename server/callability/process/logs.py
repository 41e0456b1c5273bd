"""Log lines on standard error, as text or as JSON: with the request that is answered, and at a limited rate."""

from __future__ import annotations

import copy
import json
import logging
import math
import random
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TextIO

INTERVAL_SECONDS = 60.0
MAX_KINDS = 1_000


@dataclass(slots=True)
class _Kind:
    due: float
    unsaid: int = 0


class LogInterval:
    """Counts events, and says when a line about them is due."""

    def __init__(self, seconds: float = INTERVAL_SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._kinds: dict[str, _Kind] = {}

    def due(self, kind: str) -> int:
        """Count an event. Return how many there were since the last line, or 0 if no line is due yet."""
        now = self._clock()
        if len(self._kinds) >= MAX_KINDS:
            self._kinds = {name: it for name, it in self._kinds.items() if it.due > now}
        known = self._kinds.setdefault(kind, _Kind(now))
        known.unsaid += 1
        if now < known.due:
            return 0
        happened, known.unsaid, known.due = known.unsaid, 0, now + self._seconds
        return happened


REQUEST_ID = "x-request-id"
"""The key of the id in the metadata of gRPC, and the name of the header of HTTP."""
REPORT = "x-callability-report"
"""The key in the metadata of gRPC that says of a question that it is for a report about locks, and for no call."""
_USABLE = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")
Metadata = Sequence[tuple[str, str | bytes]]


@dataclass(slots=True)
class RequestContext:
    """One request: `fields` go to its log lines, and `metadata` is what the caller sent with it.

    `answer` is what its span alone says of the answer. With `is_report`, it is for a report about locks. None of it is
    in an answer that an agent reads (FR-002).
    """

    request_id: str
    fields: dict[str, str] = field(default_factory=dict)
    metadata: Metadata = ()
    answer: Mapping[str, str] = field(default_factory=dict)
    is_report: bool = False


_CURRENT: ContextVar[RequestContext | None] = ContextVar("request", default=None)
_source = random.Random()


def current() -> RequestContext | None:
    """Return the request that is answered now; None if there is none."""
    return _CURRENT.get()


def current_id() -> str:
    """Return the id of the request that is answered now, or a new one if there is none."""
    request = _CURRENT.get()
    return new_id() if request is None else request.request_id


def usable_id(given: str | None) -> str:
    """Return the id that a caller gave, or a new one if it gave none or one that a log cannot take as it is."""
    return given if given is not None and _USABLE.fullmatch(given) else new_id()


def new_id() -> str:
    """Return a new id: 32 hexadecimal digits, which nobody needs to be unable to guess."""
    return f"{_source.getrandbits(128):032x}"


def begin(given: str | None, metadata: Metadata = ()) -> None:
    """Let the task that runs now be about a new request, to its end."""
    is_report = any(key == REPORT for key, _ in metadata)
    _CURRENT.set(RequestContext(usable_id(given), metadata=metadata, is_report=is_report))


@contextmanager
def report() -> Iterator[None]:
    """Let decisions inside the context be for a report about locks: they count as no decisions about calls."""
    request = _CURRENT.get() or RequestContext(new_id())
    token = _CURRENT.set(replace(request, is_report=True))
    try:
        yield
    finally:
        _CURRENT.reset(token)


def is_report() -> bool:
    """Say whether what is decided now is for a report about locks."""
    request = _CURRENT.get()
    return request is not None and request.is_report


@contextmanager
def request_id(given: str | None = None) -> Iterator[str]:
    """Answer a request inside the context, under the id that its caller gave or a new one; it yields the id.

    A given id that has other characters than `A-Z a-z 0-9 . _ : / + = @ -`, or more than 128, is not used. The calls
    that a client makes inside send the id to the service, and the lines of both logs have it.
    """
    made = RequestContext(usable_id(given))
    token = _CURRENT.set(made)
    try:
        yield made.request_id
    finally:
        _CURRENT.reset(token)


def note(**fields: str) -> None:
    """Add fields to the log lines of the request that is answered now, if there is one."""
    if (request := _CURRENT.get()) is not None:
        request.fields.update(fields)


_OURS = "callability"
LIBRARY_LINES = 10
"""Lines that a logger of a library has in `LIBRARY_SECONDS`."""
LIBRARY_SECONDS = 60.0
LIBRARY_CHARACTERS = 1_000
"""Characters of such a line; a traceback is left out, but for its last line."""
MAX_LOGGERS = 1_000


class LogFormat(StrEnum):
    """How a log line is written."""

    TEXT = "text"
    JSON = "json"


def log_to_standard_error(level: str, form: str = LogFormat.TEXT, worker: int | None = None) -> None:
    """Send every log record of at least a level to standard error; with `worker`, each line has its number."""
    handler = _Lines(sys.stderr)
    handler.setFormatter(JsonLines(worker) if form == LogFormat.JSON else _text(worker))
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)


class _Lines(logging.StreamHandler[TextIO]):
    """Writes lines, and limits those of loggers that are not ours: each request of an outsider may cause one.

    Each logger has ten lines a minute, of 1,000 characters each. The next line says how many were left out.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._loggers: dict[str, _Logger] = {}
        self._counting = threading.Lock()

    def handle(self, record: logging.LogRecord) -> bool:
        """Write a record, unless it is one too many of a library."""
        name = record.name
        if name == _OURS or name.startswith(f"{_OURS}."):
            return super().handle(record)
        with self._counting:
            if len(self._loggers) >= MAX_LOGGERS:
                self._loggers.clear()
            known = self._loggers.setdefault(name, _Logger(record.created))
            if record.created - known.since >= LIBRARY_SECONDS or record.created < known.since:
                known.since, known.lines = record.created, 0
            if known.lines >= LIBRARY_LINES:
                known.left_out += 1
                return False
            known.lines += 1
            left_out, known.left_out = known.left_out, 0
        return super().handle(_shorten(record, left_out))


@dataclass(slots=True)
class _Logger:
    since: float
    lines: int = 0
    left_out: int = 0


def _shorten(record: logging.LogRecord, left_out: int) -> logging.LogRecord:
    """Return a record of a library as it is written: its message and its traceback are bounded."""
    shown = copy.copy(record)
    try:
        message = record.getMessage()
    except (TypeError, ValueError):
        # A library's own mistake must not reach the library.
        message = str(record.msg)
    if record.exc_info and record.exc_info[0] is not None:
        message = f"{message}: {record.exc_info[0].__name__}: {record.exc_info[1]}"
    shown.exc_info = shown.exc_text = shown.stack_info = None
    if len(message) > LIBRARY_CHARACTERS:
        message = f"{message[:LIBRARY_CHARACTERS]}..."
    missing = f" ({left_out} lines of this logger were left out)" if left_out else ""
    shown.msg, shown.args = f"{message}{missing}", None
    return shown


def fields(**values: str | float | bool) -> Mapping[str, Any]:
    """Return what a record of `logging` takes as `extra`, so that its line in JSON has these fields."""
    return {"fields": values}


class JsonLines(logging.Formatter):
    """Writes a record as one JSON object on one line.

    Its fields are those of the record, and those of the request that is answered. A field never replaces `time`,
    `level`, `logger`, `message`, `worker`, `request_id`, `exception` or `traceback`. Other attributes of a record, such
    as those that a library adds, are not written.
    """

    def __init__(self, worker: int | None = None) -> None:
        super().__init__()
        self._worker = worker

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")[:-6] + "Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if self._worker is not None:
            line["worker"] = self._worker
        request = current()
        if request is not None:
            line["request_id"] = request.request_id
        if record.exc_info and record.exc_info[0] is not None:
            line["exception"] = record.exc_info[0].__name__
            line["traceback"] = self.formatException(record.exc_info)
        own = getattr(record, "fields", None)
        if isinstance(own, Mapping):
            _add(line, own)
        if request is not None:
            _add(line, request.fields)
        return json.dumps(line)


def _text(worker: int | None) -> logging.Formatter:
    which = "" if worker is None else f"[worker {worker}] "
    return logging.Formatter(f"%(asctime)s %(levelname)s %(name)s: {which}%(message)s")


def _add(line: dict[str, Any], more: Mapping[str, Any]) -> None:
    for key, value in more.items():
        line.setdefault(str(key), _plain(value))


def _plain(value: Any) -> Any:
    """Return a value as JSON can hold it."""
    if value is None or isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return str(value)
