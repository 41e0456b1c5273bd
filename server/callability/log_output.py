"""Log lines on standard error: as text for people, or as JSON objects for programs."""

from __future__ import annotations

import copy
import json
import logging
import math
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TextIO

from callability import request_context

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
        return super().handle(_shortened(record, left_out))


@dataclass(slots=True)
class _Logger:
    since: float
    lines: int = 0
    left_out: int = 0


def _shortened(record: logging.LogRecord, left_out: int) -> logging.LogRecord:
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
        request = request_context.current()
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
