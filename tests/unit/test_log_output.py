"""Log lines as JSON: one object a line, with the fields of the record and of its request."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from callability.process.logs import JsonLines, fields, log_to_standard_error, note, request_id


def _record(message: str, *arguments: object, **more: Any) -> logging.LogRecord:
    record = logging.makeLogRecord({"name": "a.b", "levelno": 20, "levelname": "INFO", "msg": message, **more})
    record.args = arguments
    record.created = 1_800_000_000.1234
    return record


def _fail() -> None:
    raise ValueError("two\nlines")


def _line(record: logging.LogRecord, worker: int | None = None) -> dict[str, Any]:
    written = JsonLines(worker).format(record)
    assert "\n" not in written
    line: dict[str, Any] = json.loads(written)
    return line


def test_a_line_has_time_level_logger_message_and_the_fields_of_its_record() -> None:
    """The time is in UTC, to the millisecond."""
    assert _line(_record("`%s` is slow", "git", **fields(server="git", seconds=1.5))) == {
        "time": "2027-01-15T08:00:00.123Z",
        "level": "info",
        "logger": "a.b",
        "message": "`git` is slow",
        "server": "git",
        "seconds": 1.5,
    }


def test_a_line_has_the_id_and_the_fields_of_the_request_that_is_answered() -> None:
    """And none of them afterwards."""
    with request_id("r-1"):
        note(agent="clerk")
        line = _line(_record("x"))
        assert (line["request_id"], line["agent"]) == ("r-1", "clerk")
    assert {"request_id", "agent"}.isdisjoint(_line(_record("x")))


def test_a_field_replaces_nothing_that_every_line_has() -> None:
    """Neither one of the record, nor one of the request."""
    with request_id("r-1"):
        note(level="x", request_id="x", own="of the request")
        line = _line(_record("said", **fields(message="x", time="x", worker="x", own="of the record")), worker=3)
    assert (line["message"], line["level"], line["request_id"], line["worker"]) == ("said", "info", "r-1", 3)
    assert line["own"] == "of the record"


def test_a_traceback_is_a_field() -> None:
    """So is the name of the exception."""
    with pytest.raises(ValueError, match="two") as caught:
        _fail()
    line = _line(_record("it failed", exc_info=(caught.type, caught.value, caught.tb)))
    assert line["exception"] == "ValueError"
    assert line["traceback"].startswith("Traceback (most recent call last):\n")
    assert line["traceback"].endswith("ValueError: two\nlines")


def test_what_a_library_adds_to_a_record_is_not_written() -> None:
    """It may hold anything, a secret too."""
    assert "secret" not in JsonLines().format(_record("x", headers="secret"))


@pytest.mark.parametrize("text", ["a\nb", "\ud800", "é\u2028", '"}{'])
def test_any_text_is_one_line_that_can_be_read(text: str) -> None:
    """Line breaks of every kind, half a character, quotes."""
    written = JsonLines().format(_record("%s", text, **fields(tool=text)))
    assert written.isascii()
    assert written.isprintable()
    assert (json.loads(written)["message"], json.loads(written)["tool"]) == (text, text)


def test_a_number_that_json_lacks_is_text() -> None:
    """So the line stays valid JSON."""
    line = _line(_record("x", **fields(one=float("nan"), two=float("inf"))))
    assert (line["one"], line["two"]) == ("nan", "inf")


@pytest.mark.parametrize(("worker", "prefix"), [(None, ""), (2, "[worker 2] ")])
def test_text_is_as_it_always_was(
    worker: int | None, prefix: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time, level, logger and message; fields and ids are not in it."""
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", root.level)
    log_to_standard_error("info", worker=worker)
    with request_id("r-1"):
        logging.getLogger("a.b").warning("`%s` is slow", "git", extra=fields(server="git"))
    time, _, rest = capsys.readouterr().err.partition(" WARNING ")
    assert rest == f"a.b: {prefix}`git` is slow\n"
    assert len(time) == len("2027-01-15 08:00:00,123")


def _written(capsys: pytest.CaptureFixture[str], *records: logging.LogRecord) -> list[str]:
    log_to_standard_error("info")
    for record in records:
        logging.getLogger().handle(record)
    return capsys.readouterr().err.splitlines()


def _of(logger: str, message: str, second: float = 0.0, **more: Any) -> logging.LogRecord:
    record = _record(message, **more)
    record.name, record.created = logger, record.created + second
    return record


def test_a_library_has_ten_lines_a_minute_and_says_how_many_were_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    """An outsider may cause one by each request; what is ours limits itself."""
    many = [_of("uvicorn.error", "Invalid HTTP request received.") for _ in range(50)]
    ours = [_of("callability.gateway", "ours") for _ in range(50)]
    other = _of("mcp.server", "another")
    lines = _written(capsys, *many, *ours, other, _of("uvicorn.error", "later", 61.0))
    assert sum("Invalid HTTP request received." in line for line in lines) == 10
    assert sum(line.endswith("ours") for line in lines) == 50
    assert sum(line.endswith("another") for line in lines) == 1
    assert lines[-1].endswith("later (40 lines of this logger were left out)")


def test_a_line_of_a_library_is_short_whatever_is_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    """The name of a host, or the traceback of an error whose text somebody else wrote."""
    error = ValueError("x" * 100_000)
    failed = _of("b", "failed", exc_info=(ValueError, error, None))
    lines = _written(capsys, _of("a", "y" * 100_000), failed)
    assert [len(line) < 1_100 for line in lines] == [True, True]
    assert "failed: ValueError: xxx" in lines[1]


@pytest.fixture(autouse=True)
def _root_logger() -> Iterator[None]:
    """Put back how the tests log."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
