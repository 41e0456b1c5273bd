"""The standard error of a server is in the log, and cannot fill it."""

from __future__ import annotations

import asyncio
import logging

import pytest

from callability.gateway.upstream.stdio import LINE_CHARACTERS, MOST_LINES, WINDOW_SECONDS, StandardError
from callability.gateway.upstream.target import Secrets

LEFT_OUT = "`x` wrote too much on standard error: {} lines are left out"


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """Tell the time."""
        return self.now


def _write(log: StandardError, count: int) -> None:
    for _ in range(count):
        log.log(b"line")


def test_after_too_many_lines_the_rest_is_left_out_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing for a while, then one line with their number, and the next lines."""
    caplog.set_level(logging.INFO)
    clock = Clock()
    log = StandardError("x", Secrets(()), clock)
    _write(log, MOST_LINES + 7)
    assert caplog.messages == ["`x` stderr: line"] * MOST_LINES
    caplog.clear()
    clock.now = WINDOW_SECONDS
    _write(log, 2)
    assert caplog.messages == [LEFT_OUT.format(7), "`x` stderr: line", "`x` stderr: line"]


def test_no_window_has_more_lines_than_are_allowed(caplog: pytest.LogCaptureFixture) -> None:
    """Wherever it starts, with lines that come evenly and too fast."""
    caplog.set_level(logging.INFO)
    clock = Clock()
    log = StandardError("x", Secrets(()), clock)
    logged: list[float] = []
    for tick in range(3000):
        clock.now = tick / 30
        caplog.clear()
        log.log(b"line")
        logged += [clock.now] * caplog.messages.count("`x` stderr: line")
    assert len(logged) > 3 * MOST_LINES
    for first, after in zip(logged, logged[MOST_LINES:], strict=False):
        assert after - first >= WINDOW_SECONDS


def test_a_server_that_writes_little_is_logged_whole(caplog: pytest.LogCaptureFixture) -> None:
    """For as long as it runs."""
    caplog.set_level(logging.INFO)
    clock = Clock()
    log = StandardError("x", Secrets(()), clock)
    for tick in range(10 * MOST_LINES):
        clock.now = tick / 16
        log.log(b"line")
    assert caplog.messages == ["`x` stderr: line"] * (10 * MOST_LINES)


def test_at_the_end_of_the_stream_the_number_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """And a last line without an end is one of them."""
    caplog.set_level(logging.INFO)

    async def story() -> None:
        stream = asyncio.StreamReader()
        stream.feed_data(b"line\n" * (MOST_LINES + 2) + b"end")
        stream.feed_eof()
        await StandardError("x", Secrets(()), Clock()).follow(stream)

    asyncio.run(story())
    assert caplog.messages == ["`x` stderr: line"] * MOST_LINES + [LEFT_OUT.format(3)]


def test_a_line_that_is_too_long_is_cut_and_no_part_of_a_secret_is_left(caplog: pytest.LogCaptureFixture) -> None:
    """Wherever the cut falls."""
    caplog.set_level(logging.INFO)
    secret = "s3cr3t-v4lu3"

    async def story(line: bytes) -> None:
        stream = asyncio.StreamReader()
        stream.feed_data(line)
        stream.feed_eof()
        await StandardError("x", Secrets((secret,)), Clock()).follow(stream)

    for before in range(len(secret)):
        asyncio.run(story(b"x" * before + secret.encode() * LINE_CHARACTERS))
        asyncio.run(story(b"x" * before + (secret * 10 + " ").encode() * LINE_CHARACTERS + b"\n"))
    assert len(caplog.messages) == 2 * len(secret)
    assert "s3c" not in caplog.text
    assert max(map(len, caplog.messages)) <= LINE_CHARACTERS + len("`x` stderr: ")
