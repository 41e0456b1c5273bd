"""Work in a child process with limits."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest

from callability import cli
from callability.files import policy_check
from callability.process.child import CannotStart, Child, Exited, TimedOut, start_early
from callability.process.limits import MAX_MEMORY
from support.checkout import TESTS
from support.running import children_of

Start = Callable[[str], Child]
ECHO = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())"


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Start a process that runs some code."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def start(code: str) -> Child:
        (tmp_path / "child_under_test.py").write_text(code)
        return Child("child_under_test")

    return start


def _whole(output: IO[bytes]) -> bytes:
    return output.read()


def test_a_task_and_an_output_larger_than_a_pipe_pass(start: Start) -> None:
    """A pipe holds 64 KiB."""
    task = b"x" * 1_000_000
    assert start(ECHO).exchange(task, 60, _whole) == task


def test_a_process_that_was_started_early_is_given_the_next_task_and_no_other(start: Start) -> None:
    """The one after it has a process of its own."""
    code = "import os, sys; sys.stdin.read(); print(os.getpid())"
    assert start(code).exchange(b"", 60, _whole)
    before = {*children_of(os.getpid())}
    start_early("child_under_test")
    [early] = {*children_of(os.getpid())} - before
    assert start(code).exchange(b"", 60, _whole).decode().strip() == early
    assert start(code).exchange(b"", 60, _whole).decode().strip() != early


def test_what_is_started_early_is_what_checks_a_policy() -> None:
    """The command names it itself, since what names it otherwise needs an extra."""
    assert cli.CHECK_MODULE == policy_check.CHECK_MODULE


def test_a_process_that_was_started_early_and_is_not_used_ends_with_its_parent() -> None:
    """It is not left behind when a command refuses its options."""
    code = """
import os
from callability.process.child import start_early
from support.running import children_of
start_early("callability.compiler.check_worker")
print(*children_of(os.getpid()))
"""
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.stdout), 0)
    assert done.stderr == ""


def test_a_process_that_ends_before_it_has_read_its_task_says_why(start: Start) -> None:
    """Unread input is not an error."""
    with pytest.raises(Exited, match=r"^its process failed: too tired$") as failed:
        start("raise SystemExit('too tired')").exchange(b"x" * 1_000_000, 60, _whole)
    assert failed.value.code == 1


def test_a_process_that_fills_its_standard_error_is_not_held_up(start: Start) -> None:
    """The last line that it writes there is kept, if it is short."""
    code = "import sys; sys.stderr.write('line\\n' * 100_000 + 'e' * 100_000); sys.exit(7)"
    with pytest.raises(Exited) as failed:
        start(code).exchange(b"", 60, _whole)
    assert failed.value.code == 7
    assert 0 < len(failed.value.reason) <= 300
    assert set(failed.value.reason) == {"e"}


def test_a_process_that_says_nothing_is_named_by_its_exit_code(start: Start) -> None:
    """And a process that a signal ended, by the signal."""
    with pytest.raises(Exited, match=r"it exited with code 9$"):
        start("raise SystemExit(9)").exchange(b"", 60, _whole)
    with pytest.raises(Exited, match=r"it was ended by SIGTERM$"):
        start("import os; os.kill(os.getpid(), 15)").exchange(b"", 60, _whole)


def test_a_process_that_neither_reads_nor_ends_is_ended_in_time(start: Start) -> None:
    """Even if the task does not fit into the pipe."""
    with pytest.raises(TimedOut, match=r"^it took longer than 0\.5 seconds$"):
        start("import signal; signal.pause()").exchange(b"x" * 1_000_000, 0.5, _whole)


def test_a_process_whose_output_is_not_read_to_its_end_ends(start: Start) -> None:
    """Its further output is dropped."""
    code = "import sys\nwhile True: sys.stdout.buffer.write(b'x' * 100_000)"
    with pytest.raises(Exited, match="BrokenPipeError"):
        start(code).exchange(b"", 60, lambda output: output.read(10))


def test_a_process_ends_with_a_reader_that_fails(start: Start) -> None:
    """Nothing of it remains."""

    def fail(_output: IO[bytes]) -> bytes:
        raise ValueError("unreadable")

    with pytest.raises(ValueError, match="unreadable"):
        start("import signal; signal.pause()").exchange(b"", 60, fail)


def test_a_process_that_cannot_be_started_is_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """For example on a machine without free memory."""
    monkeypatch.setattr("sys.executable", "/nonexistent/python")
    with pytest.raises(CannotStart, match=r"^its process cannot be started: no such file or directory$"):
        Child("child_under_test")


def test_a_process_limits_its_memory_and_its_processor_time(start: Start) -> None:
    """An inherited limit that is lower stays."""
    code = (
        "import resource; from callability.process.limits import limit_this_process;"
        "resource.setrlimit(resource.RLIMIT_CPU, (50, 50)); limit_this_process(60);"
        "print(*resource.getrlimit(resource.RLIMIT_AS), *resource.getrlimit(resource.RLIMIT_CPU))"
    )
    _, inherited = resource.getrlimit(resource.RLIMIT_AS)
    memory = MAX_MEMORY if inherited == resource.RLIM_INFINITY else min(MAX_MEMORY, inherited)
    assert start(code).exchange(b"", 60, _whole).split() == [b"%d" % each for each in (memory, memory, 50, 50)]
