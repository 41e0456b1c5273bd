"""Log lines on standard error: as text for people, or as JSON objects for programs."""

from __future__ import annotations

import json
import logging
import math
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from callability import request_context


class LogFormat(StrEnum):
    """How a log line is written."""

    TEXT = "text"
    JSON = "json"


def log_to_standard_error(level: str, form: str = LogFormat.TEXT, worker: int | None = None) -> None:
    """Send every log record of at least a level to standard error; with `worker`, each line has its number."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines(worker) if form == LogFormat.JSON else _text(worker))
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)


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
